//! Lines that say the same of many objects become one: a hundred sessions under one expired policy are one fault.

use super::Line;
use super::names::some;

/// This many that say the same are still listed one by one.
const ALIKE_MAX: usize = 3;

/// The lines in their order, with those that say the same together where the first of them is.
pub(super) fn group(lines: Vec<Line>) -> Vec<Line> {
    let mut grouped: Vec<Vec<Line>> = Vec::new();
    for line in lines {
        match grouped.iter_mut().find(|alike| alike.first().is_some_and(|first| is_alike(first, &line))) {
            Some(alike) => alike.push(line),
            None => grouped.push(vec![line]),
        }
    }
    grouped.into_iter().flat_map(merged).collect()
}

/// Of objects of one kind, in one word: what the word stands before may differ.
fn is_alike(first: &Line, second: &Line) -> bool {
    let kind = |line: &Line| line.what.split_once(' ').map(|(kind, _)| kind.to_owned());
    let word = |line: &Line| line.detail.split_once(": ").map(|(word, _)| word.to_owned());
    kind(first).is_some()
        && kind(first) == kind(second)
        && first.outcome == second.outcome
        && first.remedy == second.remedy
        && word(first) == word(second)
}

fn merged(mut alike: Vec<Line>) -> Vec<Line> {
    if alike.len() <= ALIKE_MAX {
        return alike;
    }
    let objects: Vec<&str> = alike.iter().filter_map(|line| Some(line.what.split_once(' ')?.1)).collect();
    let shown = some(&objects);
    let example = objects.first().copied().unwrap_or_default().to_owned();
    let count = alike.len();
    let differ = alike.iter().any(|line| alike.first().is_some_and(|first| first.detail != line.detail));
    let first = alike.swap_remove(0);
    let what = format!("{count} {}", plural(first.what.split_once(' ').map_or("", |(kind, _)| kind)));
    // What is true of one is not said of all.
    let said = if differ { format!("for example {example}: {}", first.detail) } else { first.detail.clone() };
    vec![Line { what, detail: format!("{said} ({shown})"), ..first }]
}

fn plural(kind: &str) -> String {
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_faults_of_one_kind_are_one_line() {
        let fault = |index: usize| {
            Line::failed(&format!("session demo/s{index}"), "PolicyExpired: yesterday", "sign the next epoch")
        };
        let mut lines: Vec<Line> = (0..200).map(fault).collect();
        lines.insert(1, Line::failed("session demo/other", "Unreachable: refused", "look at the network"));
        lines.push(Line::good("nodes", "every node with a replica is ready"));
        let grouped = group(lines);
        assert_eq!(grouped.len(), 3, "{grouped:?}");
        assert_eq!(grouped[0].what, "200 sessions");
        assert!(grouped[0].detail.contains("demo/s4 and 195 more"), "{grouped:?}");
        assert_eq!(grouped[0].remedy.as_deref(), Some("sign the next epoch"));
    }

    #[test]
    fn what_is_true_of_one_is_not_said_of_all() {
        let policy = |index: u64| {
            Line::good(&format!("policy t{index}/p"), format!("epoch {index}, expires in {index} days"))
        };
        let grouped = group((1..6).map(policy).collect());
        let [line] = grouped.as_slice() else { panic!("{grouped:?}") };
        assert_eq!(line.what, "5 policies");
        assert!(line.detail.starts_with("for example t1/p: epoch 1, expires in 1 days"), "{line:?}");
        for index in 1..6 {
            assert!(line.detail.contains(&format!("t{index}/p")), "{line:?}");
        }
        let same = |index: u64| Line::good(&format!("peer t{index}/p"), "2 of 2 replicas ready");
        let grouped = group((1..6).map(same).collect());
        assert_eq!((grouped[0].what.as_str(), grouped[0].detail.starts_with("2 of 2")), ("5 peers", true));
    }

    #[test]
    fn few_are_listed_one_by_one() {
        let lines: Vec<Line> = (0..3)
            .map(|index| Line::good(&format!("peer demo/p{index}"), format!("{index} of 2 ready")))
            .collect();
        assert_eq!(group(lines.clone()), lines);
    }
}
