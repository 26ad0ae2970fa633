//! Whether a label selector selects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// An empty selector selects everything, as the API server has it.
pub(super) fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let empty = BTreeMap::new();
    let labels = labels.unwrap_or(&empty);
    let equal = selector.match_labels.iter().flatten().all(|(name, value)| labels.get(name) == Some(value));
    let meets = |requirement: &LabelSelectorRequirement| {
        let value = labels.get(&requirement.key);
        let listed = |value: &String| requirement.values.iter().flatten().any(|listed| listed == value);
        match requirement.operator.as_str() {
            "In" => value.is_some_and(listed),
            "NotIn" => !value.is_some_and(listed),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    };
    equal && selector.match_expressions.iter().flatten().all(meets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_follow_the_api_server() {
        let labels: BTreeMap<String, String> = [("app".to_owned(), "a".to_owned())].into();
        let check = |selector: serde_json::Value| {
            let selector = serde_json::from_value(selector).unwrap();
            (selects(&selector, Some(&labels)), selects(&selector, None))
        };
        let expression = |operator: &str, values: &[&str]| {
            check(
                serde_json::json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}),
            )
        };
        assert_eq!(check(serde_json::json!({})), (true, true));
        assert_eq!(check(serde_json::json!({"matchLabels": {"app": "a"}})), (true, false));
        assert_eq!(check(serde_json::json!({"matchLabels": {"app": "b"}})), (false, false));
        assert_eq!(expression("In", &["a", "b"]), (true, false));
        assert_eq!(expression("NotIn", &["a"]), (false, true));
        assert_eq!(expression("Exists", &[]), (true, false));
        assert_eq!(expression("DoesNotExist", &[]), (false, true));
        assert_eq!(expression("Unheard", &[]), (false, false));
    }
}
