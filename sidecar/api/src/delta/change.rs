//! What leads from one sequence to another.

use std::collections::HashMap;

use prost::Message as _;
use prost::bytes::Bytes;

use super::error::DeltaError;
use super::limits::{CONFIGURATION_BYTES_MAX, ITEMS_MAX};
use super::sequence::Sequence;
use crate::bounded::check;
use crate::control::{Changes, Step};

// Positions travel as `uint32`.
const _: () = assert!(ITEMS_MAX <= u32::MAX as usize);

/// An encoded `Changes` that makes `next` of `base`. It is not the shortest there is, but what is new in `next` costs about
/// its own length, and what was moved costs a few bytes for each run.
#[must_use]
pub fn diff(base: &Sequence, next: &Sequence) -> Vec<u8> {
    let mut places: HashMap<&Bytes, Vec<usize>> = HashMap::new();
    for (place, item) in base.items().iter().enumerate() {
        places.entry(item).or_default().push(place);
    }
    let mut steps = Vec::new();
    let mut step = Step::default();
    // Where the base goes on if nothing changed.
    let mut expected = 0;
    for item in next.items() {
        let Some(place) = place_of(item, base, expected, &places) else {
            step.items.push(item.to_vec());
            continue;
        };
        let continues = step.items.is_empty() && step.count > 0 && place == expected;
        if !continues {
            let begun = Step { start: position(place), count: 0, items: Vec::new() };
            steps.extend(Some(std::mem::replace(&mut step, begun)).filter(brings));
        }
        step.count += 1;
        expected = place + 1;
    }
    steps.extend(Some(step).filter(brings));
    Changes { steps }.encode_to_vec()
}

fn brings(step: &Step) -> bool {
    step.count > 0 || !step.items.is_empty()
}

/// Where the base has the item: at the place that follows, or the next one if there, or the first.
fn place_of(
    item: &Bytes,
    base: &Sequence,
    expected: usize,
    places: &HashMap<&Bytes, Vec<usize>>,
) -> Option<usize> {
    if base.items().get(expected) == Some(item) {
        return Some(expected);
    }
    let places = places.get(item)?;
    let next = places.partition_point(|place| *place < expected);
    places.get(next).or_else(|| places.first()).copied()
}

/// Bounded by [`ITEMS_MAX`].
fn position(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// What encoded `changes` make of `base`.
///
/// # Errors
/// [`DeltaError`] of what is not well-formed, reaches beyond the base, or leads beyond the bounds.
pub fn apply(base: &Sequence, changes: &[u8]) -> Result<Sequence, DeltaError> {
    // A change that is longer than the longest configuration was not made by `diff`.
    if changes.len() > 2 * CONFIGURATION_BYTES_MAX {
        return Err(DeltaError::Bytes);
    }
    check::<Changes>(changes)?;
    let Changes { steps } = Changes::decode(changes)?;
    let runs = steps.iter().map(|step| run(base, step)).collect::<Result<Vec<_>, _>>()?;
    let items = runs.into_iter().zip(steps).flat_map(|(copied, step)| {
        copied.iter().cloned().chain(step.items.into_iter().map(Bytes::from)).map(Ok)
    });
    Sequence::new(items)
}

fn run<'a>(base: &'a Sequence, step: &Step) -> Result<&'a [Bytes], DeltaError> {
    let Step { start, count, items: _ } = step;
    let (start, count) = (*start, *count);
    if count == 0 {
        return Ok(&[]);
    }
    let range = usize::try_from(start).ok().zip(usize::try_from(count).ok());
    let range = range.and_then(|(start, count)| Some(start..start.checked_add(count)?));
    let run = range.and_then(|range| base.items().get(range));
    run.ok_or(DeltaError::Run { start, count, held: base.items().len() })
}
