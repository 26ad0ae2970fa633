//! Which number stands for which file.

use std::collections::BTreeMap;

pub(crate) const ROOT: u64 = 1;
pub(crate) const REPORTS: u64 = 2;
pub(crate) const SEV_GUEST: u64 = 3;
pub(crate) const NSM: u64 = 4;
/// Entries have multiples of this; their files follow.
const STRIDE: u64 = 100;

/// The files of an entry that providers use (Documentation/ABI/testing/configfs-tsm-report).
pub(crate) const ATTRIBUTES: [&str; 6] =
    ["inblob", "outblob", "auxblob", "provider", "generation", "privlevel"];

/// One directory that a guest made below `report/`.
#[derive(Default)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) inblob: Vec<u8>,
    pub(crate) generation: u64,
    /// What was signed for `inblob`: large answers are read in parts.
    pub(crate) outblob: Option<Vec<u8>>,
}

#[derive(Default)]
pub(crate) struct Entries {
    last: u64,
    pub(crate) all: BTreeMap<u64, Entry>,
}

impl Entries {
    /// None when the name is taken.
    pub(crate) fn create(&mut self, name: &str) -> Option<u64> {
        if self.find(name).is_some() {
            return None;
        }
        self.last += STRIDE;
        self.all.insert(self.last, Entry { name: name.to_owned(), ..Entry::default() });
        Some(self.last)
    }

    pub(crate) fn find(&self, name: &str) -> Option<u64> {
        self.all.iter().find(|(_, entry)| entry.name == name).map(|(number, _)| *number)
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.all.retain(|_, entry| entry.name != name);
    }

    /// The entry and the attribute that a number stands for.
    pub(crate) fn attribute(&mut self, number: u64) -> Option<(&mut Entry, &'static str)> {
        let place = usize::try_from(number % STRIDE).ok()?.checked_sub(1)?;
        let name = ATTRIBUTES.get(place)?;
        Some((self.all.get_mut(&(number - number % STRIDE))?, name))
    }
}

pub(crate) fn attribute_number(entry: u64, name: &str) -> Option<u64> {
    let place = ATTRIBUTES.iter().position(|attribute| *attribute == name)?;
    Some(entry + 1 + u64::try_from(place).ok()?)
}

pub(crate) const fn is_directory(number: u64) -> bool {
    number == ROOT || number == REPORTS || (number >= STRIDE && number.is_multiple_of(STRIDE))
}
