//! Taking the cluster down until nothing of it is left. As root.

use anyhow::{Result, ensure};

use super::{
    cgroup::Layout,
    place::Place,
    processes::{end_all, end_keepers, leftovers},
};
use crate::progress::{note, step};

pub(super) fn run(place: &Place) -> Result<()> {
    let _lock = place.lock()?;
    step("Taking the cluster down", || run_locked(place))?;
    note("Nothing of it is left but the cache of built programs.");
    Ok(())
}

/// Also clears up after a cluster that was never complete, or whose state folder somebody deleted.
pub(super) fn run_locked(place: &Place) -> Result<()> {
    let layout = Layout::of_this_machine()?;
    end_all(&layout, &place.group())?;
    end_keepers(place)?;
    // A keeper that was still starting may have made groups again.
    end_all(&layout, &place.group())?;
    place.remove_state()?;
    let left = leftovers(place, &layout);
    ensure!(left.is_empty(), "the cluster left something behind:\n  {}", left.join("\n  "));
    Ok(())
}
