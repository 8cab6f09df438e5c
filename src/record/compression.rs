//! How record batches are compressed, and how hard (KIP-390).

use std::{fmt, str::FromStr};

/// How a record batch is compressed (`compression.type`).
///
/// Each codec is a feature of its own name, and all are on by default. A build without one refuses it by name, when it
/// would write and when it would read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// Gzip; needs the feature `gzip`.
    Gzip,
    /// Snappy; needs the feature `snappy`.
    Snappy,
    /// LZ4 frames; needs the feature `lz4`.
    Lz4,
    /// Zstandard; needs the feature `zstd`.
    Zstd,
}

/// How hard each codec tries (`compression.gzip.level`, `compression.lz4.level`, `compression.zstd.level`).
///
/// The ranges and defaults are Kafka's. What the libraries make of a level:
///
/// | codec | levels | default | |
/// |---|---|---|---|
/// | gzip | 1 to 9, -1 | -1, which is 6 | each is another effort |
/// | lz4 | 1 to 17 | 9 | all are the same: the library has one effort, about that of level 1 |
/// | zstd | -131072 to 22 | 3 | all are the same: the library has one effort, between levels -5 and -1 of libzstd in size. With the feature `zstd-c` each is another effort |
///
/// ```
/// use kafka_2pc::record::{Compression, CompressionLevels};
///
/// let levels = CompressionLevels::default().with(Compression::Gzip, 9)?;
/// assert_eq!(levels.of(Compression::Gzip), Some(9));
/// assert_eq!(levels.of(Compression::Zstd), Some(3));
/// assert!(levels.with(Compression::Gzip, 10).is_err());
/// # Ok::<_, kafka_2pc::record::LevelError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompressionLevels {
    gzip: i32,
    lz4: i32,
    zstd: i32,
}

/// A level that the codec does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{codec} has no compression level {level}: {}", levels_of(*codec))]
pub struct LevelError {
    /// The codec.
    pub codec: Compression,
    /// The level.
    pub level: i32,
}

/// A name that is none of a codec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is no codec: none, gzip, snappy, lz4 and zstd are")]
pub struct UnknownCodec;

impl Compression {
    /// All of them, in the order of their numbers on the wire.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Kafka's name, which is also that of the feature: `none`, `gzip`, `snappy`, `lz4`, `zstd`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Whether this build can write and read it.
    #[must_use]
    pub fn is_built(self) -> bool {
        match self {
            Self::None => true,
            Self::Gzip => cfg!(feature = "gzip"),
            Self::Snappy => cfg!(feature = "snappy"),
            Self::Lz4 => cfg!(feature = "lz4"),
            Self::Zstd => cfg!(feature = "zstd"),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Compression {
    type Err = UnknownCodec;

    fn from_str(name: &str) -> Result<Self, UnknownCodec> {
        Self::ALL.into_iter().find(|codec| codec.name() == name).ok_or(UnknownCodec)
    }
}

impl Default for CompressionLevels {
    fn default() -> Self {
        Self { gzip: -1, lz4: 9, zstd: 3 }
    }
}

impl CompressionLevels {
    /// The same with another level for one codec.
    ///
    /// # Errors
    /// [`LevelError`] if the codec has no such level, or none at all.
    pub fn with(mut self, codec: Compression, level: i32) -> Result<Self, LevelError> {
        let (place, is_level) = match codec {
            Compression::Gzip => (&mut self.gzip, level == -1 || (1..=9).contains(&level)),
            Compression::Lz4 => (&mut self.lz4, (1..=17).contains(&level)),
            Compression::Zstd => (&mut self.zstd, (-131_072..=22).contains(&level)),
            Compression::None | Compression::Snappy => return Err(LevelError { codec, level }),
        };
        if !is_level {
            return Err(LevelError { codec, level });
        }
        *place = level;
        Ok(self)
    }

    /// The level of a codec; nothing for one without levels.
    #[must_use]
    pub fn of(&self, codec: Compression) -> Option<i32> {
        match codec {
            Compression::None | Compression::Snappy => None,
            Compression::Gzip => Some(self.gzip),
            Compression::Lz4 => Some(self.lz4),
            Compression::Zstd => Some(self.zstd),
        }
    }
}

/// The levels of a codec, for people.
fn levels_of(codec: Compression) -> &'static str {
    match codec {
        Compression::None | Compression::Snappy => "it has no levels",
        Compression::Gzip => "it has 1 to 9, and -1 for its default",
        Compression::Lz4 => "it has 1 to 17",
        Compression::Zstd => "it has -131072 to 22",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_are_named_as_kafka_names_them() {
        for codec in Compression::ALL {
            assert_eq!(codec.name().parse(), Ok(codec));
            assert_eq!(codec.to_string(), codec.name());
        }
        for other in ["", "GZIP", "lzma", "uncompressed"] {
            assert_eq!(other.parse::<Compression>(), Err(UnknownCodec));
        }
    }

    #[test]
    fn levels_are_those_of_kafka() {
        use Compression::{Gzip, Lz4, None, Snappy, Zstd};
        let usual = CompressionLevels::default();
        assert_eq!([Gzip, Lz4, Zstd].map(|codec| usual.of(codec)), [Some(-1), Some(9), Some(3)]);
        for (codec, level) in
            [(Gzip, -1), (Gzip, 1), (Gzip, 9), (Lz4, 1), (Lz4, 17), (Zstd, -131_072), (Zstd, 22)]
        {
            let levels = usual.with(codec, level).unwrap();
            assert_eq!(levels.of(codec), Some(level));
            let others = Compression::ALL.into_iter().filter(|other| *other != codec);
            assert!(others.into_iter().all(|other| levels.of(other) == usual.of(other)));
        }
        let wrong = [
            (Gzip, 0),
            (Gzip, -2),
            (Gzip, 10),
            (Lz4, 0),
            (Lz4, 18),
            (Zstd, -131_073),
            (Zstd, 23),
            (None, 1),
            (Snappy, 1),
        ];
        for (codec, level) in wrong {
            let error = usual.with(codec, level).unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("{codec} has no compression level {level}: it has"))
            );
        }
    }
}
