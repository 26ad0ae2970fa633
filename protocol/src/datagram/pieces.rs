//! What is sent, written piece by piece.

/// Puts `pieces` to the front of `space`, one behind the other, and returns their length; `None` when they do not fit.
pub(super) fn put(space: &mut [u8], pieces: &[&[u8]]) -> Option<usize> {
    let length = pieces.iter().map(|piece| piece.len()).sum();
    let mut place = space.get_mut(..length)?;
    for piece in pieces {
        let (here, rest) = std::mem::take(&mut place).split_at_mut(piece.len());
        here.copy_from_slice(piece);
        place = rest;
    }
    Some(length)
}
