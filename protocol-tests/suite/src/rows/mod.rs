//! The rows: one test each, by the id under which `conformance.toml` lists it.

pub mod a_connections;
pub mod b_identity;
pub mod c_coordinators;
pub mod d_partitions;
pub mod e_produce;
pub mod f_offsets;
pub mod g_ending;
pub mod h_api;
pub mod i_fencing;
pub mod j_reading;
pub mod k_sink;
pub mod l_hostile;
pub mod p_plain;
mod seen;

use futures::future::BoxFuture;

use crate::bench::Bench;
use crate::outcome::Shown;

/// What a row does.
pub type Body = for<'a> fn(&'a Bench) -> BoxFuture<'a, Shown>;

/// The test of one row.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its id.
    pub id: &'static str,
    /// What it does.
    pub body: Body,
}

/// `rows![a01 a02]`: the tests of these names, under their names in capitals.
macro_rules! rows {
    ($($name:ident)*) => {
        &[$($crate::rows::Row { id: stringify!($name), body: |bench| Box::pin($name(bench)) }),*]
    };
}
pub(crate) use rows;

/// `copies!(Type)`: whether values of a type can be cloned.
macro_rules! copies {
    ($type:ty) => {{
        trait Otherwise {
            const COPIES: bool = false;
        }
        impl<T> Otherwise for T {}
        struct Of<T>(std::marker::PhantomData<T>);
        // Where this exists it comes before the trait's.
        impl<T: Clone> Of<T> {
            const COPIES: bool = true;
        }
        // Both are used, whichever it is.
        let _ = (<() as Otherwise>::COPIES, <Of<()>>::COPIES);
        <Of<$type>>::COPIES
    }};
}
pub(crate) use copies;

/// All rows that have a test.
#[must_use]
pub fn all() -> Vec<Row> {
    [
        a_connections::ROWS,
        b_identity::ROWS,
        c_coordinators::ROWS,
        d_partitions::ROWS,
        e_produce::ROWS,
        f_offsets::ROWS,
        g_ending::ROWS,
        h_api::ROWS,
        i_fencing::ROWS,
        j_reading::ROWS,
        k_sink::ROWS,
        l_hostile::ROWS,
        p_plain::ROWS,
    ]
    .concat()
}

/// The test of a row.
#[must_use]
pub fn named(id: &str) -> Option<Row> {
    all().into_iter().find(|row| row.id.eq_ignore_ascii_case(id))
}
