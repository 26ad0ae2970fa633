//! Every way in which people make pods that send, as data: one row, one manifest. A row is tried at admission, by what
//! the API server would store, and with tensors.

mod judge;
mod pod;
mod quantity;
mod rows;
mod second;

pub use judge::troubles;
pub use pod::pod_of;
pub use rows::{Needs, ROWS, Row, Scene, limit_range, quota};
pub use second::Second;
