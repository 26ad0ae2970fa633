//! Showing who pushes: nothing, a name and password, or a token that the registry's own service gives for them.

use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;
use ureq::http::StatusCode;

use super::{Ask, Registry};

const USER: &str = "SEALANE_REGISTRY_USER";
const PASSWORD: &str = "SEALANE_REGISTRY_PASSWORD";
/// A token is a few kilobytes.
const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// An `Authorization` value made of a name and a password.
pub(super) struct Credentials(String);

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(redacted)")
    }
}

impl Credentials {
    pub(super) fn of_environment() -> Result<Option<Self>> {
        match (std::env::var(USER).ok(), std::env::var(PASSWORD).ok()) {
            (Some(user), Some(password)) => Ok(Some(Self::new(&user, &password))),
            (None, None) => Ok(None),
            _ => bail!("set both {USER} and {PASSWORD}, or neither"),
        }
    }

    pub(super) fn new(user: &str, password: &str) -> Self {
        Self(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))))
    }
}

/// What a registry wants to see, from `WWW-Authenticate`.
#[derive(Debug, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String> },
}

#[derive(Deserialize)]
struct Token {
    #[serde(alias = "access_token")]
    token: String,
}

/// The `Authorization` to send with requests for `repository`.
pub(super) fn authorize(registry: &Registry, repository: &str) -> Result<Option<String>> {
    let url = format!("{}/v2/", registry.base);
    let ask =
        Ask { method: "GET", url: &url, what: "the registry's greeting", authorization: None, content: None };
    let answer = registry.ask(&ask, (), &[StatusCode::OK, StatusCode::UNAUTHORIZED])?;
    if answer.status() == StatusCode::OK {
        return Ok(None);
    }
    let challenges =
        answer.headers().get_all("www-authenticate").iter().filter_map(|value| value.to_str().ok());
    let credentials = registry.credentials.as_ref().map(|credentials| credentials.0.as_str());
    match challenges.filter_map(challenge).next() {
        Some(Challenge::Basic) => {
            let missing = || format!("{} wants a login: set {USER} and {PASSWORD}", registry.host);
            Ok(Some(credentials.with_context(missing)?.to_owned()))
        }
        Some(Challenge::Bearer { realm, service }) => {
            let token = token(registry, &realm, service.as_deref(), repository, credentials)?;
            Ok(Some(format!("Bearer {token}")))
        }
        None => bail!("{} wants a kind of login that is neither Basic nor Bearer", registry.host),
    }
}

fn token(
    registry: &Registry,
    realm: &str,
    service: Option<&str>,
    repository: &str,
    credentials: Option<&str>,
) -> Result<String> {
    let scheme = registry.base.split("://").next().unwrap_or_default();
    ensure!(
        realm.starts_with("https://") || realm.starts_with(&format!("{scheme}://")),
        "{} sends passwords to {realm:?}, without encryption",
        registry.host
    );
    let mut url = format!(
        "{realm}{}scope=repository:{repository}:pull,push",
        if realm.contains('?') { '&' } else { '?' }
    );
    if let Some(service) = service {
        url.push_str("&service=");
        url.push_str(&query(service));
    }
    let ask = Ask {
        method: "GET",
        url: &url,
        what: "asking for a token",
        authorization: credentials,
        content: None,
    };
    let answer = registry.ask(&ask, (), &[StatusCode::OK]).with_context(|| match credentials {
        None => format!("{} wants a login: set {USER} and {PASSWORD}", registry.host),
        Some(_) => format!("{} refuses {USER} and {PASSWORD}", registry.host),
    })?;
    let text = answer.into_body().into_with_config().limit(TOKEN_BYTES_MAX).read_to_string()?;
    let token: Token = serde_json::from_str(&text).context("the registry's token service sent no token")?;
    Ok(token.token)
}

/// Parses `Bearer realm="…",service="…"`; what else stands there is not needed.
fn challenge(header: &str) -> Option<Challenge> {
    let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let parameter = |name: &str| {
        let (_, rest) = parameters.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    Some(Challenge::Bearer { realm: parameter("realm")?, service: parameter("service") })
}

/// A query value, percent-encoded.
fn query(value: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    value.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges() {
        assert_eq!(challenge("Basic realm=\"x\""), Some(Challenge::Basic));
        let bearer = challenge("Bearer realm=\"https://auth/token\",service=\"registry\",scope=\"a\"");
        let expected =
            Challenge::Bearer { realm: "https://auth/token".into(), service: Some("registry".into()) };
        assert_eq!(bearer, Some(expected));
        assert_eq!(challenge("Bearer service=\"registry\""), None);
        assert_eq!(challenge("Negotiate"), None);
        assert_eq!(query("my registry&x"), "my%20registry%26x");
    }

    #[test]
    fn credentials_never_show() {
        assert_eq!(format!("{:?}", Credentials::new("user", "secret")), "Credentials(redacted)");
    }
}
