//! What an entry for Nitro evidence pins and permits.

use crate::document::NitroReference;
use crate::field::{FieldError, Object, Problem};

pub(super) fn reference(object: &mut Object<'_>) -> Result<NitroReference, FieldError> {
    Err(object.field().refuse(Problem::NotInThisRelease { word: "Nitro" }))
}
