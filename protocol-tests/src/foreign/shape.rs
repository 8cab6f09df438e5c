//! Records that are written in every codec, by whoever: what each number looks like.

use super::Record;

/// The lines whose values are written: mostly short ones, and with `long` ones of 40 KiB among them, so that no codec gets
/// along with one block. Their numbers begin with 1: aiokafka writes no record without key and value, as 0 would be.
pub fn lines(count: u32, long: bool) -> Vec<String> {
    let line = |number| {
        let line = format!("line {number} of those that are written in every codec");
        if long && number % 15 == 7 { format!("{line}; ").repeat(750) } else { line }
    };
    (1..=count).map(line).collect()
}

impl Record {
    /// What `writer.py --shapes` makes of the line of this number, if the topic has one partition and the numbers begin with 1.
    pub fn shaped(number: u32, line: &str) -> Self {
        let (wide, text) = (i64::from(number), |text: &str| Some(text.as_bytes().to_vec()));
        let headers = [
            ("number", text(&number.to_string())),
            ("same", text("1")),
            ("same", text("2")),
            ("null", None),
            ("empty", text("")),
        ];
        let headers = headers.into_iter().take(number as usize % 6);
        Self {
            partition: 0,
            offset: wide - 1,
            timestamp_ms: 1_600_000_000_000 + wide * 7919 % 100_000,
            key: if number.is_multiple_of(11) { None } else { text(&(number % 100).to_string()) },
            value: if number.is_multiple_of(13) { None } else { text(line) },
            headers: headers.map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    /// The record as a line of `kafka-console-producer` with keys, headers and [`NULL`](Self::NULL) for null. It cannot say a time.
    pub fn console_line(&self) -> String {
        let shown = |bytes: &Option<Vec<u8>>| match bytes {
            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            None => Self::NULL.to_owned(),
        };
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| format!("{name}:{}", shown(value))).collect();
        let headers = if headers.is_empty() { Self::NULL.to_owned() } else { headers.join(",") };
        format!("{headers}\t{}\t{}", shown(&self.key), shown(&self.value))
    }

    /// What stands for null in a line.
    pub const NULL: &str = "NULL";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_shapes() {
        let lines = lines(14, true);
        assert!(lines[6].len() > 32 << 10 && lines[5].len() < 100);
        let first = Record::shaped(1, &lines[0]);
        assert_eq!((first.offset, first.headers.len(), first.text()), (0, 1, lines[0].clone()));
        let sixth = Record::shaped(78, "x");
        assert_eq!(sixth.console_line(), "NULL\t78\tNULL");
        let eleventh = Record::shaped(11, "x");
        assert_eq!((&eleventh.key, eleventh.timestamp_ms), (&None, 1_600_000_087_109));
        let other = Record::shaped(4, "x");
        assert_eq!(other.console_line(), "number:4,same:1,same:2,null:NULL\t4\tx");
    }
}
