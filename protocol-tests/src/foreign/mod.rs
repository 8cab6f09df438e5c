//! Other people's clients, run as programs: librdkafka and aiokafka through `readers/reader.py`, and along with a writer through `readers/follower.py`, librdkafka's transactional
//! producer through `readers/writer.py`, aiokafka's through `readers/aio_writer.py`, and consumer groups through `readers/group.py`.

mod error;
mod following;
mod group;
mod reading;
mod shape;
mod venv;
mod writing;

pub use error::ForeignError;
pub use following::{Followed, Following};
pub use group::{Kept, Standing};
pub use reading::{Comparison, Isolation, Library, Order, Reading, Record};
pub use shape::lines;
pub use venv::Venv;
pub use writing::{End, Held, LineForm, Shapes, Step, Writing};
