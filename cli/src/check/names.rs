//! How objects are named in a line.

use k8s_openapi::api::core::v1::Pod;

/// Names printed in one line.
const NAMES_SHOWN_MAX: usize = 5;

/// The first few names, and how many more there are.
pub(super) fn some<S: AsRef<str>>(names: &[S]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES_SHOWN_MAX).map(AsRef::as_ref).collect();
    let more = names.len().saturating_sub(shown.len());
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// `NAMESPACE/NAME`.
pub(super) fn full_name(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    format!(
        "{}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..7).map(|index| index.to_string()).collect();
        assert_eq!(some(&names), "0, 1, 2, 3, 4 and 2 more");
    }
}
