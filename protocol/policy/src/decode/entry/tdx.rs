//! What an entry for TDX evidence pins and permits.

use crate::document::TdxReference;
use crate::field::{FieldError, Object, Problem};

pub(super) fn reference(object: &mut Object<'_>) -> Result<TdxReference, FieldError> {
    Err(object.field().refuse(Problem::NotInThisRelease { word: "Tdx" }))
}
