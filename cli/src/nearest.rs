//! The name that somebody may have meant.

/// Within so many changed letters a name counts as mistyped, of a name three times as long.
const DISTANCE_MAX: usize = 3;

/// `; did you mean NAME?`, or which names there are where they are few, or nothing.
pub(crate) fn suggestion<'a>(asked: &str, names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_by_key(|name| distance(asked, name));
    match names.as_slice() {
        [] => String::new(),
        [nearest, ..] if is_near(asked, nearest) => format!("; did you mean {nearest}?"),
        names if names.len() <= DISTANCE_MAX => format!("; there is {}", names.join(", ")),
        _ => String::new(),
    }
}

fn is_near(asked: &str, name: &str) -> bool {
    let length = asked.chars().count().max(name.chars().count());
    distance(asked, name) <= (length / 3).clamp(1, DISTANCE_MAX)
        || (asked.len() >= DISTANCE_MAX && name.starts_with(asked))
}

/// Letters that are put in, taken out, changed or swapped, whatever their case.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_lowercase().chars().collect();
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, letter) in left.iter().enumerate() {
        let mut next = vec![above + 1];
        for (column, other) in right.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX / 2);
            let changed = at(&row, column) + usize::from(letter != other);
            let moved = at(&row, column + 1).min(at(&next, column)) + 1;
            let swapped = above.checked_sub(1).zip(column.checked_sub(1)).filter(|(above, column)| {
                left.get(*above) == Some(other) && right.get(*column) == Some(letter)
            });
            let swapped = swapped.map_or(usize::MAX, |(_, column)| at(&before, column) + 1);
            next.push(changed.min(moved).min(swapped));
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_recognised() {
        let names = ["embedder", "ranker", "triton", "policy-server"];
        let near = |asked: &str| suggestion(asked, names.into_iter());
        for asked in ["embeder", "embeddder", "emebdder", "Embedder", "embed"] {
            assert_eq!(near(asked), "; did you mean embedder?", "{asked}");
        }
        assert_eq!(near("something"), "");
        assert_eq!(suggestion("something", names[..2].iter().copied()), "; there is embedder, ranker");
        assert_eq!(suggestion("x", std::iter::empty()), "");
    }

    #[test]
    fn distances_count_letters() {
        for (left, right, expected) in [("", "", 0), ("a", "", 1), ("ab", "ba", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!(distance(left, right), expected, "{left} {right}");
            assert_eq!(distance(right, left), expected, "{right} {left}");
        }
    }
}
