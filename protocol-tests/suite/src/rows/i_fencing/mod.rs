//! Two owners of one transactional id.

mod answers;
mod rivals;

use answers::{i02, i03, i06};
use rivals::{i01, i04, i05};

use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![i01 i02 i03 i04 i05 i06];
