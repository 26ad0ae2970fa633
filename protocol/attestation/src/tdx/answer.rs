//! Intel's statements as its provisioning certification service answers them (API version 4), and caches of it: a JSON
//! object of the statement and its signature, and a chain of certificates beside it.

use super::documents::Stored;
use super::pem;
use crate::limits::STATEMENT_BYTES_MAX;
use crate::piece::{Piece, SignedStatement};
use crate::rejection::Rejection;

const MALFORMED: Rejection = Rejection::CollateralMissing("the answer holds no statement of Intel's");
/// r ‖ s in hex.
const SIGNATURE_DIGITS: usize = 128;

/// `{"tcbInfo":{…},"signature":"…"}` with the chain of who signed it, in PEM.
pub(crate) fn tcb_info(body: &[u8], chain: &[u8]) -> Result<Piece, Rejection> {
    statement(body, chain, "{\"tcbInfo\":").map(Piece::TcbInfo)
}

/// `{"enclaveIdentity":{…},"signature":"…"}` with the chain of who signed it, in PEM.
pub(crate) fn identity(body: &[u8], chain: &[u8]) -> Result<Piece, Rejection> {
    statement(body, chain, "{\"enclaveIdentity\":").map(Piece::QeIdentity)
}

/// A list in DER with the chain of its authority, in PEM.
pub(crate) fn list(list: Vec<u8>, chain: &[u8]) -> Result<Piece, Rejection> {
    let [authority, _root] = pem::certificates(chain).ok_or(MALFORMED)?;
    Ok(Piece::TdxList { list, authority })
}

/// What the JSON form of Intel's quote verification library holds, piece by piece.
pub(crate) fn library(text: &[u8]) -> Result<Vec<Piece>, Rejection> {
    Stored::read(text).map(Stored::into_pieces)
}

/// The signature covers the exact text of the object, so that it is cut out rather than parsed.
fn statement(body: &[u8], chain: &[u8], begin: &str) -> Result<SignedStatement, Rejection> {
    if body.len() > 2 * STATEMENT_BYTES_MAX {
        return Err(Rejection::CollateralMissing("the TCB info or QE identity is too large"));
    }
    let body = std::str::from_utf8(body).map_err(|_| MALFORMED)?.trim_ascii();
    let rest = body.strip_prefix(begin).and_then(|rest| rest.strip_suffix("\"}")).ok_or(MALFORMED)?;
    let at = rest.len().checked_sub(SIGNATURE_DIGITS).ok_or(MALFORMED)?;
    let (rest, digits) = rest.split_at_checked(at).ok_or(MALFORMED)?;
    let text = rest.strip_suffix(",\"signature\":\"").ok_or(MALFORMED)?;
    let [signer, _root] = pem::certificates(chain).ok_or(MALFORMED)?;
    let signature = hex::decode(digits).map_err(|_| MALFORMED)?;
    Ok(SignedStatement { text: text.to_owned(), signature, signer })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";

    #[test]
    fn the_exact_text_is_cut_out() {
        let chain = CERTIFICATE.repeat(2);
        let signature = "AB".repeat(64);
        let body = |text: &str| format!("{{\"tcbInfo\":{text},\"signature\":\"{signature}\"}}\n");
        let text = r#"{"id": "TDX",  "x":"\u0041"}"#;
        let read = tcb_info(body(text).as_bytes(), chain.as_bytes()).unwrap();
        let expected =
            SignedStatement { text: text.to_owned(), signature: vec![0xab; 64], signer: vec![1, 2, 3] };
        assert_eq!(read, Piece::TcbInfo(expected));
        // Twice what a statement may have, ends of lines among it.
        let padded = |bytes: usize| body(text) + &"\n".repeat(bytes - body(text).len());
        assert_eq!(tcb_info(padded(2 * STATEMENT_BYTES_MAX).as_bytes(), chain.as_bytes()), Ok(read));
        for (body, chain) in [
            (padded(2 * STATEMENT_BYTES_MAX + 1), chain.clone()),
            (body(text), String::new()),
            (body(text), CERTIFICATE.to_owned()),
            (body(text).replace("tcbInfo", "enclaveIdentity"), chain.clone()),
            (body(text).replace("signature", "signatures"), chain.clone()),
            (body(text).replace("AB", "ZZ"), chain.clone()),
            (String::new(), chain.clone()),
            ("{\"tcbInfo\":\"}".to_owned(), chain.clone()),
            (body(&"x".repeat(2 * STATEMENT_BYTES_MAX)), chain.clone()),
        ] {
            assert!(tcb_info(body.as_bytes(), chain.as_bytes()).is_err(), "{body:.40}");
        }
        assert!(tcb_info(&[0xff; 300], chain.as_bytes()).is_err());
        assert!(identity(body(text).as_bytes(), chain.as_bytes()).is_err());
    }
}
