//! What is written.

/// How many values there are: making them is not what is measured.
const VALUES: usize = 1024;

/// Values of printable bytes, the same in every process, that compress neither very well nor very badly.
#[must_use]
pub fn values(bytes: usize) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'a' + ((state >> 33) % 16) as u8
    };
    (0..VALUES).map(|_| (0..bytes).map(|_| byte()).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_differ() {
        let mut values = values(100);
        values.sort();
        values.dedup();
        assert_eq!(values.len(), VALUES);
    }
}
