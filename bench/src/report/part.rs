//! What a report is made of, before it becomes Markdown or a page.

use super::family::Family;
use crate::row::Row;

#[derive(Debug)]
pub(super) struct Section<'a> {
    pub(super) title: &'static str,
    pub(super) parts: Vec<Part<'a>>,
}

#[derive(Debug)]
pub(super) enum Part<'a> {
    Heading(String),
    Say(String),
    /// What went wrong.
    Alarm(String),
    List(Vec<Text>),
    /// Names and values.
    Facts(Vec<(&'static str, String)>),
    Table(Table),
    /// Out of the way until it is opened.
    Folded(String, Vec<Self>),
    /// Text as it is, out of the way until it is opened.
    Listing(&'static str, String),
    /// Figures that stand for the rest.
    Tiles(Vec<&'a Row>),
    /// Ratios on one scale. Only pages draw them; the tables hold the same.
    Bars(Vec<&'a Row>),
    /// Single operations.
    Quantiles(Vec<&'a Row>),
    /// One small table each, and a curve on pages.
    Curves(Vec<Family<'a>>),
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Column {
    Words(&'static str),
    Figures(&'static str),
}

impl Column {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Words(name) | Self::Figures(name) => name,
        }
    }
}

/// Lines of a table's cell.
#[derive(Debug, Default)]
pub(super) struct Cell {
    pub(super) lines: Vec<Text>,
    /// How it is coloured, where colour says something.
    pub(super) tone: Option<&'static str>,
}

/// An id and words.
#[derive(Debug, Clone)]
pub(super) struct Text {
    pub(super) id: Option<String>,
    pub(super) words: String,
}

impl Text {
    pub(super) fn new(id: impl ToString, words: impl Into<String>) -> Self {
        Self { id: Some(id.to_string()), words: words.into() }
    }

    pub(super) fn words(words: impl Into<String>) -> Self {
        Self { id: None, words: words.into() }
    }
}

impl Cell {
    pub(super) fn of(words: impl Into<String>) -> Self {
        Self { lines: vec![Text::words(words)], tone: None }
    }

    pub(super) fn named(id: impl ToString, words: impl Into<String>) -> Self {
        Self { lines: vec![Text::new(id, words)], tone: None }
    }

    /// A word that is coloured by what it says.
    pub(super) fn tone(tone: &'static str, words: impl Into<String>) -> Self {
        Self { tone: Some(tone), ..Self::of(words) }
    }
}
