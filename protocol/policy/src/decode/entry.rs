//! Entries of a Peer. Which fields are known depends on the kind, so that a value which the kind cannot
//! check is refused instead of ignored.

mod nitro;
mod snp;
mod tdx;

use std::collections::BTreeSet;
use std::str::FromStr;

use sealane_types::{Assurance, Platform};

use super::{DIGEST, KEY, flag};
use crate::document::{Entry, Reference, Workload};
use crate::field::{Field, FieldError, Object, Problem};
use crate::limits::{IMAGES_MAX, TEXT_BYTES_MAX, VALUES_MAX};

/// The platforms whose evidence has a form of its own; simulated evidence has one of theirs.
const FORMS: &[Platform] = &[Platform::SevSnp, Platform::Tdx, Platform::Nitro];

pub(super) fn entry(field: Field<'_>) -> Result<Entry, FieldError> {
    let mut object = field.object()?;
    let kind_field = object.required("kind", r#""kind": "SevSnp""#)?;
    let entry = match kind_field.word(Platform::ALL)? {
        form @ (Platform::SevSnp | Platform::Tdx | Platform::Nitro) => real(&mut object, &kind_field, form)?,
        Platform::Simulated => simulated(&mut object)?,
        Platform::Key => key(&mut object)?,
    };
    object.close()?;
    Ok(entry)
}

fn real(object: &mut Object<'_>, kind: &Field<'_>, form: Platform) -> Result<Entry, FieldError> {
    let assurance = object.required("assurance", r#""assurance": "Pod""#)?;
    let assurance = assurance.word(&[Assurance::Pod, Assurance::Node])?;
    let (workload, unverified_workload) = workload_demands(object)?;
    let reference = reference(object, kind, form)?;
    Ok(Entry { assurance, root: None, workload, unverified_workload, reference })
}

/// Simulated evidence has the form of another platform's. The document may state the assurance that the real
/// platform would have; what counts is Simulated.
fn simulated(object: &mut Object<'_>) -> Result<Entry, FieldError> {
    let stated = object.optional("assurance", r#""assurance": "Simulated", or leave it out"#);
    let words = [Assurance::Simulated, Assurance::Pod, Assurance::Node];
    stated.map(|assurance| assurance.word(&words)).transpose()?;
    let root = object.required("root", r#""root": "<fingerprint that the simulated install prints>""#)?;
    let root = Some(root.parse(DIGEST)?);
    // Without a workload there is nothing that the permission grants: the same entry can be written for both platforms.
    let (workload, tolerated) = workload_demands(object)?;
    let unverified_workload = tolerated && workload.is_some();
    let stated = object.optional("form", r#""form": "Tdx", or leave it out for SevSnp"#);
    let form = stated.as_ref().map(|form| form.word(FORMS)).transpose()?.unwrap_or(Platform::SevSnp);
    let form_field = stated.as_ref().unwrap_or(object.field());
    let reference = reference(object, &form_field.clone(), form)?;
    let assurance = Assurance::Simulated;
    Ok(Entry { assurance, root, workload, unverified_workload, reference })
}

/// What evidence of this form has to show, real or simulated.
fn reference(object: &mut Object<'_>, kind: &Field<'_>, form: Platform) -> Result<Reference, FieldError> {
    match form {
        Platform::SevSnp => snp::reference(object).map(Reference::SevSnp),
        Platform::Tdx => tdx::reference(object).map(Reference::Tdx),
        Platform::Nitro => nitro::reference(object).map(Reference::Nitro),
        Platform::Key | Platform::Simulated => {
            Err(kind.refuse(Problem::NotInThisRelease { word: form.as_str() }))
        }
    }
}

fn key(object: &mut Object<'_>) -> Result<Entry, FieldError> {
    let stated = object.optional("assurance", r#""assurance": "Key", or leave it out"#);
    stated.map(|assurance| assurance.word(&[Assurance::Key])).transpose()?;
    let public_keys = values(object, "publicKeys", r#""publicKeys": ["<64 hex digits>"]"#, VALUES_MAX, KEY)?;
    Ok(Entry {
        assurance: Assurance::Key,
        root: None,
        workload: None,
        unverified_workload: false,
        reference: Reference::Key(public_keys),
    })
}

fn values<T: FromStr + Ord>(
    object: &mut Object<'_>,
    name: &'static str,
    example: &'static str,
    most: usize,
    expected: &str,
) -> Result<BTreeSet<T>, FieldError> {
    let field = object.optional(name, example);
    let values = field.map(|field| field.set(most, |value| value.parse(expected))).transpose()?;
    Ok(values.unwrap_or_default())
}

/// Whether the pod may have been started with any initdata.
fn any_initdata(object: &mut Object<'_>) -> Result<bool, FieldError> {
    flag(object, "allowAnyInitdata", r#""allowAnyInitdata": true"#, false)
}

/// What a node agent has to state, and whether the entry does without its statement.
fn workload_demands(object: &mut Object<'_>) -> Result<(Option<Workload>, bool), FieldError> {
    let stated = object.optional("workload", r#""workload": {"serviceAccount": "embedder", "images": []}"#);
    let workload = stated.map(workload).transpose()?;
    let tolerated = flag(object, "allowUnverifiedWorkload", r#""allowUnverifiedWorkload": true"#, false)?;
    Ok((workload, tolerated))
}

fn workload(field: Field<'_>) -> Result<Workload, FieldError> {
    let mut object = field.object()?;
    let account = object.required("serviceAccount", r#""serviceAccount": "embedder""#)?;
    let service_account = printable(&account, "a service account's name")?;
    let images = object.optional("images", r#""images": ["registry.example/app@sha256:<64 hex digits>"]"#);
    let images = images.map(|field| field.set(IMAGES_MAX, image)).transpose()?.unwrap_or_default();
    object.close()?;
    Ok(Workload { service_account, images })
}

/// A tag can be moved, so only a digest pins an image.
fn image(field: &Field<'_>) -> Result<String, FieldError> {
    const EXPECTED: &str = "an image by digest";
    let text = printable(field, EXPECTED)?;
    let digest = text.split_once("@sha256:").map(|(_, digest)| digest.parse::<sealane_types::Digest>());
    if !matches!(digest, Some(Ok(_))) {
        return Err(field.malformed(EXPECTED, &text));
    }
    Ok(text)
}

fn printable(field: &Field<'_>, expected: &str) -> Result<String, FieldError> {
    let text = field.text()?;
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    if text.is_empty() || text.len() > TEXT_BYTES_MAX || !printable {
        return Err(field.malformed(expected, text));
    }
    Ok(text.to_owned())
}
