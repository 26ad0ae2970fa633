//! The initdata of a pod: what its guest was started with, and roots in it.
//!
//! Kata takes it from an annotation, as the base64 of gzip of a TOML file with `version`, `algorithm` and `data`; whatever
//! else is in the file is measured as it is. It comes to the sidecar by way of the control plane, so nothing in it counts
//! before the pod's own evidence shows that the guest was started with it ([`crate::evidence::measured`]).

use std::collections::BTreeMap;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::bufread::GzDecoder;
use sealane_types::{INITDATA_BYTES_MAX, INITDATA_ROOTS, Roots};
use serde::Deserialize;

/// All annotations of an object have at most so many bytes.
const ANNOTATION_BYTES_MAX: usize = 256 << 10;

/// What a guest was started with, as far as the control plane tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initdata(Vec<u8>);

/// Initdata that nobody means.
#[derive(Debug, thiserror::Error)]
pub enum InitdataError {
    #[error("the initdata has more bytes than an annotation may have ({ANNOTATION_BYTES_MAX})")]
    TooLong,
    #[error("the initdata is longer than {INITDATA_BYTES_MAX} bytes once it is unpacked")]
    Inflated,
    #[error("the initdata is gzip in base64, and cannot be unpacked")]
    Packed(#[source] std::io::Error),
    #[error("`{INITDATA_ROOTS}` in the initdata is no JSON list of roots")]
    Roots(#[source] serde_json::Error),
    #[error("`{INITDATA_ROOTS}` in the initdata lists no roots")]
    NoRoots,
}

/// What of the file concerns us.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    data: BTreeMap<String, toml::Value>,
}

impl Initdata {
    /// Reads an annotation, or a file.
    ///
    /// # Errors
    /// [`InitdataError`] when it is too long or cannot be unpacked.
    pub fn read(bytes: &[u8]) -> Result<Self, InitdataError> {
        if bytes.len() > ANNOTATION_BYTES_MAX {
            return Err(InitdataError::TooLong);
        }
        let packed =
            STANDARD.decode(bytes.trim_ascii()).ok().filter(|packed| packed.starts_with(&[0x1f, 0x8b]));
        let Some(packed) = packed else { return Ok(Self(bytes.to_vec())) };
        let mut text = Vec::new();
        let most = u64::try_from(INITDATA_BYTES_MAX).unwrap_or(u64::MAX);
        let mut unpacked = GzDecoder::new(&packed[..]).take(most.saturating_add(1));
        unpacked.read_to_end(&mut text).map_err(InitdataError::Packed)?;
        if text.len() <= INITDATA_BYTES_MAX { Ok(Self(text)) } else { Err(InitdataError::Inflated) }
    }

    /// The bytes that the guest's platform measures.
    #[must_use]
    pub fn measured(&self) -> &[u8] {
        &self.0
    }

    /// The roots in it, if there are any.
    ///
    /// # Errors
    /// [`InitdataError`] when they cannot be read.
    pub fn roots(&self) -> Result<Option<Vec<Roots>>, InitdataError> {
        // Initdata of another form has none.
        let file = std::str::from_utf8(&self.0).ok().and_then(|text| toml::from_str::<File>(text).ok());
        let member = file.and_then(|mut file| file.data.remove(INITDATA_ROOTS));
        let Some(member) = member else { return Ok(None) };
        let text = member.as_str().unwrap_or_default();
        let roots: Vec<Roots> = serde_json::from_str(text).map_err(InitdataError::Roots)?;
        if roots.is_empty() { Err(InitdataError::NoRoots) } else { Ok(Some(roots)) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const ROOTS: &str = r#"[{"namespace":"demo","policy":"demo","threshold":1,"keys":[],"minimumEpoch":1}]"#;

    fn packed(text: &[u8]) -> String {
        let mut packing = GzEncoder::new(Vec::new(), Compression::best());
        packing.write_all(text).unwrap();
        STANDARD.encode(packing.finish().unwrap())
    }

    fn file(roots: &str) -> String {
        format!(
            "version = \"0.1.0\"\nalgorithm = \"sha256\"\n[data]\n\"policy.rego\" = \"\"\n\"{INITDATA_ROOTS}\" = '''{roots}'''\n"
        )
    }

    #[test]
    fn roots_are_in_the_file_packed_or_not() {
        let text = file(ROOTS);
        for annotation in [text.clone(), packed(text.as_bytes()), format!("{}\n", packed(text.as_bytes()))] {
            let initdata = Initdata::read(annotation.as_bytes()).unwrap();
            assert_eq!(initdata.measured(), text.as_bytes());
            assert_eq!(initdata.roots().unwrap().unwrap().len(), 1);
        }
    }

    #[test]
    fn initdata_without_roots_has_none() {
        let without = file(ROOTS).replace(INITDATA_ROOTS, "aa.toml");
        for text in ["", "sealane simulated initdata\nnamespace: demo\n", &without, "H4sI not base64"] {
            let initdata = Initdata::read(text.as_bytes()).unwrap();
            assert_eq!(initdata.measured(), text.as_bytes());
            assert_eq!(initdata.roots().unwrap(), None, "{text}");
        }
    }

    #[test]
    fn roots_that_cannot_be_read_are_no_missing_ones() {
        for (roots, why) in [("[]", "lists no roots"), ("{}", "no JSON list"), ("", "no JSON list")] {
            let initdata = Initdata::read(file(roots).as_bytes()).unwrap();
            assert!(initdata.roots().unwrap_err().to_string().contains(why), "{roots}");
        }
        let number = file(ROOTS).replace(&format!("'''{ROOTS}'''"), "7");
        assert!(Initdata::read(number.as_bytes()).unwrap().roots().is_err());
    }

    #[test]
    fn what_is_unpacked_is_bounded() {
        let most = INITDATA_BYTES_MAX;
        assert_eq!(Initdata::read(packed(&vec![b' '; most]).as_bytes()).unwrap().measured().len(), most);
        // Its end is missing, and nobody gets so far.
        let mut bomb = packed(&vec![b' '; most * 64]);
        bomb.truncate(bomb.len() - 8);
        assert!(bomb.len() < ANNOTATION_BYTES_MAX);
        assert!(matches!(Initdata::read(bomb.as_bytes()), Err(InitdataError::Inflated)));
        assert!(matches!(Initdata::read(&vec![b' '; ANNOTATION_BYTES_MAX + 1]), Err(InitdataError::TooLong)));
        let mut cut = packed(b"text");
        cut.truncate(cut.len() - 8);
        assert!(matches!(Initdata::read(cut.as_bytes()), Err(InitdataError::Packed(_))));
    }
}
