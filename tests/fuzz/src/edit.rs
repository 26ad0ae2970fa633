//! Changes to genuine bytes. A search that begins with genuine signatures and sealed records gets behind them, where
//! random bytes never would.

use crate::script::Script;

/// Most changes of one input.
const EDITS_MAX: usize = 12;

/// One change, five bytes of input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edit {
    /// Which of several byte strings it changes.
    pub(crate) place: u8,
    kind: u8,
    at: u16,
    value: u8,
}

/// The changes that `script` describes.
pub(crate) fn edits(script: &mut Script<'_>) -> Vec<Edit> {
    let mut edits = Vec::new();
    while edits.len() < EDITS_MAX
        && let Some(edit) = edit(script)
    {
        edits.push(edit);
    }
    edits
}

/// The next change of `script`.
pub(crate) fn edit(script: &mut Script<'_>) -> Option<Edit> {
    Some(Edit { place: script.byte()?, kind: script.byte()?, at: script.word()?, value: script.byte()? })
}

/// The five bytes of a change, for seeds.
pub(crate) fn encode(place: u8, kind: u8, at: u16, value: u8) -> Vec<u8> {
    let [high, low] = at.to_be_bytes();
    vec![place, kind, high, low, value]
}

impl Edit {
    pub(crate) fn apply(self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            bytes.push(self.value);
            return;
        }
        let at = usize::from(self.at) % bytes.len();
        let count = usize::from(self.value) + 1;
        let end = (at + count).min(bytes.len());
        match self.kind % 7 {
            0 => bytes[at] ^= self.value.max(1),
            1 => bytes[at] = self.value,
            2 => bytes.truncate(at),
            3 => drop(bytes.splice(at..at, std::iter::repeat_n(self.value, count))),
            4 => drop(bytes.drain(at..end)),
            5 => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            _ => bytes.rotate_left(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_what_its_bytes_say() {
        for (kind, expected) in [
            (0, &[1, 0, 3, 4][..]),
            (1, &[1, 2, 3, 4]),
            (2, &[1]),
            (3, &[1, 2, 2, 2, 2, 3, 4]),
            (4, &[1]),
            (5, &[1, 2, 3, 4, 2, 3, 4]),
            (6, &[2, 3, 4, 1]),
        ] {
            let bytes = encode(9, kind, 1, 2);
            let [edit] = <[Edit; 1]>::try_from(edits(&mut Script::new(&bytes))).unwrap();
            let mut changed = vec![1, 2, 3, 4];
            edit.apply(&mut changed);
            assert_eq!((edit.place, changed.as_slice()), (9, expected), "{kind}");
        }
    }
}
