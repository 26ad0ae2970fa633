//! The demo over another carrier: the same files, with what that carrier needs.

use std::{fmt, str::FromStr};

use anyhow::{Result, bail};

/// What carries the demo's session; `Auto` leaves the files as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carrier {
    #[default]
    Auto,
    Tcp,
    Udp,
    AfXdp,
}

impl FromStr for Carrier {
    type Err = anyhow::Error;

    fn from_str(word: &str) -> Result<Self> {
        Ok(match word {
            "" | "Auto" => Self::Auto,
            "Tcp" => Self::Tcp,
            "Udp" => Self::Udp,
            "AfXdp" => Self::AfXdp,
            _ => bail!("not Auto, Tcp, Udp or AfXdp"),
        })
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

impl Carrier {
    /// A file of the examples with what this carrier needs.
    pub(super) fn applied(self, file: &str, text: &str) -> String {
        let past_kernel = self == Self::AfXdp;
        match file {
            "session" if self != Self::Auto => format!("{}\n  carrier: {self}\n", text.trim_end()),
            // Only there pods may have the node's devices.
            "namespace" if past_kernel => text.replace("enforce: restricted", "enforce: privileged"),
            "demo/workloads" if past_kernel => text.replace(
                "      restartPolicy: Never\n",
                "      restartPolicy: Never\n      hostNetwork: true\n      dnsPolicy: ClusterFirstWithHostNet\n",
            ),
            _ => text.to_owned(),
        }
    }

    /// Whether a session that says so in its status is carried as asked.
    pub(super) fn is(self, status: &str) -> bool {
        self == Self::Auto || status == self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 3] = [
        ("session", include_str!("../../../examples/session.yaml")),
        ("namespace", include_str!("../../../examples/namespace.yaml")),
        ("demo/workloads", include_str!("../../../examples/demo/workloads.yaml")),
    ];

    #[test]
    fn the_files_get_what_a_carrier_needs_and_nothing_else() {
        let lines = |carrier: Carrier| {
            FILES.map(|(file, text)| {
                let applied = carrier.applied(file, text);
                applied
                    .lines()
                    .filter(|line| !text.contains(*line))
                    .map(str::trim)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
        };
        assert_eq!(lines(Carrier::Auto), ["", "", ""]);
        assert_eq!(lines(Carrier::Udp), ["carrier: Udp", "", ""]);
        let host = "hostNetwork: true dnsPolicy: ClusterFirstWithHostNet";
        let privileged = "pod-security.kubernetes.io/enforce: privileged";
        assert_eq!(lines(Carrier::AfXdp), ["carrier: AfXdp", privileged, &format!("{host} {host}")]);
    }

    #[test]
    fn words_are_those_of_the_resource() {
        for carrier in [Carrier::Auto, Carrier::Tcp, Carrier::Udp, Carrier::AfXdp] {
            assert_eq!(carrier.to_string().parse::<Carrier>().unwrap(), carrier);
        }
        assert!("udp".parse::<Carrier>().is_err());
        assert!(Carrier::Udp.is("Udp") && !Carrier::AfXdp.is("Udp") && Carrier::Auto.is("Tcp"));
    }
}
