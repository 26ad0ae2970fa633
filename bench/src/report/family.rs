//! Rows that measure the same at several sizes or counts.

use crate::row::{Row, Unit};

/// Such rows, the smallest first.
#[derive(Debug)]
pub(super) struct Family<'a> {
    /// The id, with `…` where the size stands.
    pub(super) title: String,
    pub(super) unit: Unit,
    pub(super) members: Vec<Member<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) size: u64,
    pub(super) row: &'a Row,
}

/// All families of at least two, in the order of their first rows.
pub(super) fn families(rows: &[Row]) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    for row in rows {
        let Some((title, size)) = parted(&row.id.0) else { continue };
        let member = Member { size, row };
        let known = families.iter_mut().find(|family| family.title == title && family.unit == row.unit);
        match known {
            Some(family) => family.members.push(member),
            None => families.push(Family { title, unit: row.unit, members: vec![member] }),
        }
    }
    families.retain(|family| family.members.len() > 1);
    families.iter_mut().for_each(|family| family.members.sort_by_key(|member| member.size));
    families
}

/// `C3-tcp/1536@rustls` is `C3-tcp/…@rustls` at 1536. A number that belongs to a word, such as in `p99`, is no size.
fn parted(id: &str) -> Option<(String, u64)> {
    let slash = id.find('/')? + 1;
    let end = id.find('@').unwrap_or(id.len());
    let case = id.get(slash..end)?;
    let part =
        case.split('-').find(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))?;
    let start = slash + case.find(part)?;
    let title = format!("{}…{}", &id[..start], &id[start + part.len()..]);
    Some((title, part.parse().ok()?))
}

impl Family<'_> {
    /// How many times the size and our figure grow from the first to the last.
    pub(super) fn growth(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.members.first()?, self.members.last()?);
        let worth = |row: &Row| (row.ours > 0.0).then_some(row.ours);
        Some((last.size as f64 / first.size as f64, worth(last.row)? / worth(first.row)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_by_itself() {
        let parted = |id| parted(id).map(|(title, size)| format!("{title} {size}")).unwrap_or_default();
        assert_eq!(parted("C3-tcp/1536@rustls"), "C3-tcp/…@rustls 1536");
        assert_eq!(parted("W18-W22/seal-64"), "W18-W22/seal-… 64");
        assert_eq!(parted("lane/1048576-cpu"), "lane/…-cpu 1048576");
        assert_eq!(parted("growth/streams-1000"), "growth/streams-… 1000");
        for none in ["H5/p50", "P7/1GB", "flood/p99-latency", "growth/streams", "portable"] {
            assert_eq!(parted(none), "", "{none}");
        }
    }
}
