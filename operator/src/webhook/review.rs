//! Reviews as they arrive. What one may take once it is decoded is estimated before that: three bytes of a list of containers
//! become ten kilobytes while the list grows.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{REVIEW_MEMORY_BYTES_MAX, REVIEW_TIME, SMALL_REVIEW_BYTES_MAX, SMALL_REVIEWS_BYTES_MAX};

/// Lists of a pod whose elements are large: a container and a volume have two and three kilobytes before anything is in them.
const LARGE_LISTS: [&[u8]; 7] = [
    b"containers",
    b"initContainers",
    b"ephemeralContainers",
    b"volumes",
    b"containerStatuses",
    b"initContainerStatuses",
    b"ephemeralContainerStatuses",
];
/// What an element of those takes, in a list that grows by doubling and is copied then.
const LARGE_BYTES: usize = 10 << 10;
/// What an object in any other list takes, likewise.
const OBJECT_BYTES: usize = 2 << 10;
/// What an object takes that is a member of another one, which counts for what it holds itself.
const MEMBER_BYTES: usize = 1 << 10;
/// What any other element of a list, or member of an object, takes.
const ELEMENT_BYTES: usize = 256;
/// Permits are for so many bytes each.
const UNIT_BYTES: usize = 1 << 10;
/// As deep as serde_json goes.
const DEPTH_MAX: usize = 128;

/// The memory that reviews of one kind may take. Small ones have their own, so that no large one keeps them waiting.
#[derive(Debug)]
pub(super) struct ReviewMemory {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
}

/// Room that one review has for as long as it is looked at.
#[derive(Debug)]
pub(super) struct ReviewRoom {
    _permit: OwnedSemaphorePermit,
}

/// Why a review is not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReviewRefused {
    #[error("decoded, this review may take {bytes} bytes, and {REVIEW_MEMORY_BYTES_MAX} are allowed")]
    TooLarge { bytes: usize },
    #[error("too many reviews at once")]
    Busy,
}

impl ReviewMemory {
    pub(super) fn new() -> Self {
        let room = |bytes: usize| Arc::new(Semaphore::new(bytes / UNIT_BYTES));
        Self { small: room(SMALL_REVIEWS_BYTES_MAX), large: room(REVIEW_MEMORY_BYTES_MAX) }
    }

    /// Room for what decoding `body` may take.
    ///
    /// # Errors
    /// [`ReviewRefused`].
    pub(super) async fn admit(&self, body: &[u8]) -> Result<ReviewRoom, ReviewRefused> {
        let bytes = decoded_bytes_max(body);
        if bytes > REVIEW_MEMORY_BYTES_MAX {
            return Err(ReviewRefused::TooLarge { bytes });
        }
        let memory = if bytes <= SMALL_REVIEW_BYTES_MAX { &self.small } else { &self.large };
        let units = u32::try_from(bytes / UNIT_BYTES).map_err(|_| ReviewRefused::TooLarge { bytes })?;
        let admitted = tokio::time::timeout(REVIEW_TIME, Arc::clone(memory).acquire_many_owned(units));
        let permit = admitted.await.ok().and_then(Result::ok).ok_or(ReviewRefused::Busy)?;
        Ok(ReviewRoom { _permit: permit })
    }
}

/// Where in a JSON text something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Object,
    List,
    LargeList,
}

/// An upper bound of what a JSON text takes once it is decoded as a pod or as any object, by its structure outside of strings.
fn decoded_bytes_max(json: &[u8]) -> usize {
    let (mut bytes, mut path) = (0_usize, Vec::new());
    // The text since the last quotation mark outside of a string, and the name that stands before a colon.
    let (mut in_string, mut is_escaped, mut begun, mut text) = (false, false, 0, [].as_slice());
    let mut is_large = false;
    for (at, byte) in json.iter().enumerate() {
        if in_string {
            if !is_escaped && *byte == b'"' {
                in_string = false;
                text = json.get(begun..at).unwrap_or_default();
            }
            is_escaped = !is_escaped && *byte == b'\\';
            continue;
        }
        let inside = path.last().copied();
        let cost = match (byte, inside) {
            (b'{', Some(Inside::LargeList)) => LARGE_BYTES,
            (b'{', Some(Inside::List)) => OBJECT_BYTES,
            (b'{', Some(Inside::Object) | None) => MEMBER_BYTES,
            (b',' | b'[', _) => ELEMENT_BYTES,
            _ => 0,
        };
        bytes = bytes.saturating_add(cost);
        match byte {
            b'"' => (in_string, begun) = (true, at.saturating_add(1)),
            // A name that is written with escapes may be any.
            b':' => is_large = LARGE_LISTS.contains(&text) || text.contains(&b'\\'),
            b'{' => path.push(Inside::Object),
            b'[' if is_large => path.push(Inside::LargeList),
            b'[' => path.push(Inside::List),
            b'}' | b']' => drop(path.pop()),
            _ => {}
        }
        if matches!(byte, b'{' | b'[' | b',') {
            is_large = false;
        }
        if path.len() > DEPTH_MAX {
            // It is refused there: nothing deeper is ever decoded.
            break;
        }
    }
    // Strings are copied, from a buffer that a flattened struct keeps of them.
    bytes.saturating_add(json.len().saturating_mul(4))
}

#[cfg(test)]
mod tests {
    use axum::Json;
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::admission::AdmissionReview;
    use kube::core::{DynamicObject, Resource};
    use serde::de::DeserializeOwned;

    use super::*;

    /// A pod or another object of which `member` is a list of `element`, in a review.
    fn review(member: &str, element: &str, count: usize) -> String {
        let list = vec![element; count].join(",");
        let spec = format!("{{\"containers\":[],{member}:[{list}]}}");
        format!(
            "{{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{{\"uid\":\"1\",\
             \"operation\":\"CREATE\",\"name\":\"\",\"userInfo\":{{}},\"kind\":{{\"group\":\"\",\"version\":\"v1\",\
             \"kind\":\"Pod\"}},\"resource\":{{\"group\":\"\",\"version\":\"v1\",\"resource\":\"pods\"}},\"object\":\
             {{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{}},\"spec\":{spec}}}}}}}"
        )
    }

    /// What decoding takes at most, and what it was said to.
    fn decoded<T: Resource + DeserializeOwned>(json: &str) -> (usize, usize) {
        let mut is_review = false;
        let used = allocation_counter::measure(|| {
            let review: Result<Json<AdmissionReview<T>>, _> = Json::from_bytes(json.as_bytes());
            is_review = review.is_ok();
        });
        assert!(is_review, "{}", &json[..600]);
        (used.bytes_max.try_into().unwrap(), decoded_bytes_max(json.as_bytes()))
    }

    #[test]
    fn nothing_takes_more_than_was_estimated() {
        for count in [3, 1025, 5000] {
            for (member, element) in [
                ("\"initContainers\"", "{}"),
                ("\"ephemeralContainers\"", "{}"),
                ("\"volumes\"", "{}"),
                ("\"volumes\"", "{\"projected\":{\"sources\":[{}]}}"),
                ("\"tolerations\"", "{}"),
                ("\"imagePullSecrets\"", "{}"),
                ("\"initContainers\"", "{\"env\":[{}],\"ports\":[{\"containerPort\":1}]}"),
                ("\"readinessGates\"", "{}"),
                ("\"topologySpreadConstraints\"", "{}"),
                ("\"resourceClaims\"", "{}"),
                ("\"hostAliases\"", "{}"),
                ("\"volumes\"", "{\"projected\":{\"sources\":[{},{},{},{},{}]}}"),
                ("\"unknown\"", "{\"\":0}"),
                ("\"unknown\"", "[[0]]"),
                ("\"unknown\"", "0"),
                ("\"unknown\"", "\"\\\\\""),
                ("\"unknown\"", "{\"a\":{},\"b\":{},\"c\":[]}"),
                (
                    "\"initContainers\"",
                    "{\"resources\":{\"limits\":{\"a\":\"1\"}},\"lifecycle\":{},\"livenessProbe\": {}}",
                ),
            ] {
                let json = review(member, element, count);
                for (used, estimated) in [decoded::<Pod>(&json), decoded::<DynamicObject>(&json)] {
                    assert!(used <= estimated, "{count} of {element} in {member}: {used} of {estimated}");
                }
            }
        }
    }

    #[test]
    fn a_large_pod_is_within_the_bound() {
        // As the API server adds them: an entry of managedFields for each variable, and for each of its fields.
        let variables = |count| vec!["{\"name\":\"A\",\"value\":\"b\"}"; count].join(",");
        let owned = "\"k:{\\\"name\\\":\\\"A\\\"}\":{\".\":{},\"f:name\":{},\"f:value\":{}}";
        let owned = vec![owned; 6000].join(",");
        let container = format!("{{\"name\":\"a\",\"image\":\"b\",\"env\":[{}]}}", variables(200));
        let json = review("\"initContainers\"", &container, 30);
        let json = json.replace(
            "\"metadata\":{}",
            &format!("\"metadata\":{{\"managedFields\":[{{\"fieldsV1\":{{{owned}}}}}]}}"),
        );
        let (used, estimated) = decoded::<Pod>(&json);
        assert!(used <= estimated && estimated <= REVIEW_MEMORY_BYTES_MAX, "{used} {estimated}");
        let usual =
            review("\"initContainers\"", &format!("{{\"name\":\"a\",\"env\":[{}]}}", variables(30)), 4);
        let estimated = decoded_bytes_max(usual.as_bytes());
        assert!(estimated <= SMALL_REVIEW_BYTES_MAX, "{estimated}");
    }

    #[test]
    fn braces_and_commas_in_strings_are_no_structure() {
        let text = br#"{"a":"{{{,,,[[[\"{\\"}"#;
        assert_eq!(decoded_bytes_max(text), text.len() * 4 + MEMBER_BYTES);
    }

    #[test]
    fn names_are_told_however_they_are_written() {
        for name in [r#""volumes""#, r#""volume\u0073""#, "\"volumes\" \n"] {
            let text = format!("{{{name}: [{{}}]}}");
            let expected = text.len() * 4 + MEMBER_BYTES + ELEMENT_BYTES + LARGE_BYTES;
            assert_eq!(decoded_bytes_max(text.as_bytes()), expected, "{text}");
        }
        let text = br#"{"volumes":1,"other":[{}],"a":["volumes",[{}]]}"#;
        assert!(decoded_bytes_max(text) < LARGE_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn large_reviews_wait_for_each_other_and_small_ones_for_none_of_them() {
        let memory = ReviewMemory::new();
        let commas = |bytes: usize| vec![b','; bytes / (ELEMENT_BYTES + 4)];
        let large = commas(REVIEW_MEMORY_BYTES_MAX);
        let first = memory.admit(&large).await.unwrap();
        let waiting = memory.admit(&large);
        let small = async {
            // However many large ones wait.
            tokio::task::yield_now().await;
            tokio::time::timeout(REVIEW_TIME / 2, memory.admit(b"{}")).await
        };
        let (large_outcome, small_outcome) = tokio::join!(waiting, small);
        assert!(small_outcome.is_ok_and(|admitted| admitted.is_ok()));
        assert_eq!(large_outcome.unwrap_err(), ReviewRefused::Busy);
        drop(first);
        assert!(memory.admit(&large).await.is_ok());
        let larger = commas(REVIEW_MEMORY_BYTES_MAX + (1 << 20));
        assert!(matches!(memory.admit(&larger).await, Err(ReviewRefused::TooLarge { .. })));
    }
}
