//! AWS Nitro Enclaves: documents that are honest but for the one thing a test spoils, and genuine ones.

mod chain;
mod document;
mod envelope;
mod hostile;
mod judged;
mod oracle;
mod stored;
mod support;
