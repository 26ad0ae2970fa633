//! TDX quotes.

use sealane_types::UnixSeconds;

use crate::claims::Claims;
use crate::collateral::Collateral;
use crate::evidence::Evidence;
use crate::rejection::Rejection;

pub(crate) fn inspect(evidence: &Evidence, _: &Collateral, _: UnixSeconds) -> Result<Claims, Rejection> {
    Err(Rejection::PlatformUnsupported(evidence.platform()))
}
