//! /dev/nsm: attestation documents of an AWS Nitro enclave, from inside of it.

use std::io;
use std::path::Path;

use aws_nitro_enclaves_nsm_api::api::{Request, Response};
use aws_nitro_enclaves_nsm_api::driver;
use futures::future::{BoxFuture, FutureExt, ready};
use sealane_attestation::Format;
use sealane_attestation::limits::REPORT_BYTES_MAX;
use serde_bytes::ByteBuf;

use super::device::Device;
use crate::evidence::provider::{Provider, ProviderError, Quote, QuoteRequest};

const DEVICE: &str = "/dev/nsm";

#[derive(Debug, Default)]
pub(super) struct Nsm(Device);

impl Provider for Nsm {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        let present = Path::new(DEVICE).try_exists().and_then(|present| {
            if present { Ok(Format::Nitro) } else { Err(io::ErrorKind::NotFound.into()) }
        });
        ready(present.map_err(failed)).boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        self.0.ask(move || quote(&request)).boxed()
    }
}

fn quote(request: &QuoteRequest) -> Result<Quote, ProviderError> {
    let QuoteRequest { report_data, tree_root, own_static, policy: _, trust: _, leaves: _ } = request;
    let session = Session::open()?;
    let request = Request::Attestation {
        user_data: Some(ByteBuf::from(*report_data)),
        nonce: Some(ByteBuf::from(*tree_root)),
        public_key: Some(ByteBuf::from(*own_static)),
    };
    match driver::nsm_process_request(session.0, request) {
        Response::Attestation { document } if document.len() <= REPORT_BYTES_MAX => {
            Ok(Quote { report: document, certificates: Vec::new(), workload: None })
        }
        Response::Error(code) => Err(ProviderError::Refused(Box::new(io::Error::other(format!("{code:?}"))))),
        _ => Err(ProviderError::Malformed("/dev/nsm answered something else than a document")),
    }
}

/// An open device, closed when it goes out of scope.
struct Session(i32);

impl Session {
    fn open() -> Result<Self, ProviderError> {
        // -1 is all that the driver's library says.
        match driver::nsm_init() {
            session if session >= 0 => Ok(Self(session)),
            _ => Err(failed(io::ErrorKind::NotFound.into())),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        driver::nsm_exit(self.0);
    }
}

fn failed(source: io::Error) -> ProviderError {
    ProviderError::Device { what: "/dev/nsm, which exists in Nitro enclaves only,", source }
}
