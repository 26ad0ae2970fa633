//! What a run found, in the forms that people and programs read. `bench/schema/report.schema.json` is the schema of the
//! JSON form.

mod area;
mod baseline;
mod family;
mod html;
mod markdown;
mod method;
mod part;
mod sections;
mod style;
mod table;
mod words;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};

use crate::bench::{Failure, Outcome};
use crate::build::Build;
use crate::machine::Machine;
use crate::plan::{Level, Plan};
use crate::row::{Missing, Row};

pub use baseline::{Baseline, Stored};
pub use method::Method;
pub use table::{line, table};

/// The version of the JSON form. It changes when a field goes or changes its meaning; new fields do not change it.
pub const VERSION: u32 = 1;
/// The name of the JSON form in a folder.
pub const FILE: &str = "report.json";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Report {
    pub version: u32,
    pub level: Level,
    /// When the run began, RFC 3339 in UTC.
    pub began: String,
    pub seconds: f64,
    /// Every suite ran and every result was right.
    pub sound: bool,
    pub machine: Machine,
    pub build: Build,
    pub method: Method,
    pub rows: Vec<Row>,
    pub missing: Vec<Missing>,
    pub failures: Vec<Failure>,
    /// The earlier report that this one was compared with; null where there is none.
    pub baseline: Option<Baseline>,
}

impl Report {
    #[must_use]
    pub fn new(
        level: Level,
        (began, seconds): (String, f64),
        machine: Machine,
        build: Build,
        outcome: Outcome,
    ) -> Self {
        let sound = outcome.is_sound();
        let Outcome { rows, missing, failures } = outcome;
        Self {
            version: VERSION,
            level,
            began,
            seconds,
            sound,
            machine,
            build,
            method: Method::of(&Plan::of(level)),
            rows,
            missing,
            failures,
            baseline: None,
        }
    }

    /// This report with what became better or worse since an earlier one.
    #[must_use]
    pub fn beside(mut self, stored: &Stored) -> Self {
        self.baseline = Some(Baseline::new(stored, &self));
        self
    }

    /// Writes `report.json`, `report.md` and `report.html`.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
        };
        write(FILE, self.json()?)?;
        write("report.md", markdown::render(self))?;
        write("report.html", html::render(self))
    }

    /// # Errors
    /// Suites that failed and rows with wrong results, each with what happened.
    pub fn judge(&self) -> Result<()> {
        let failures =
            self.failures.iter().map(|failure| format!("{}: {}", failure.suite.word(), failure.error));
        let rows =
            self.rows.iter().filter(|row| !row.correct).map(|row| format!("{}: {}", row.id.0, row.note));
        let troubles: Vec<_> = failures.chain(rows).collect();
        ensure!(troubles.is_empty(), "a suite failed or a result was wrong:\n  {}", troubles.join("\n  "));
        Ok(())
    }

    /// # Errors
    /// None that a report can have.
    pub fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// The JSON Schema of [`Report`].
///
/// # Errors
/// None that a schema can have.
pub fn schema() -> Result<String> {
    // As it is written: a field without a value is there, and null.
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    Ok(serde_json::to_string_pretty(&generator.into_root_schema_for::<Report>())? + "\n")
}
