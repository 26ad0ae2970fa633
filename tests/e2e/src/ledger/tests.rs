//! Ledgers made by hand: one that keeps every promise, and for each promise one that breaks it.

use super::*;

/// Lines `EVENT` with the fields of `json`, of one process.
fn line(run: &str, event: &str, fields: &str) -> String {
    let comma = if fields.is_empty() { "" } else { "," };
    format!(r#"{{"event":"{event}","run":"{run}","millis":1{comma}{fields}}}"#)
}

fn book(peer: &str, pod: &str, lines: &[String]) -> Book {
    Book::parse(peer, pod, &lines.join("\n")).unwrap()
}

fn began(run: &str, role: &str) -> Vec<String> {
    vec![line(run, "run", &format!(r#""role":"{role}""#)), line(run, "opened", "")]
}

fn put(run: &str, index: u64, sequence: u64) -> Vec<String> {
    vec![
        line(run, "putting", &format!(r#""indexes":[{index}]"#)),
        line(run, "put", &format!(r#""indexes":[{index}],"sequences":[{sequence}],"waited":0.0"#)),
    ]
}

fn took(run: &str, of: &str, number: u64) -> Vec<String> {
    let fields =
        format!(r#""of":"{of}","index":{number},"sequence":{number},"sender":"left/a","whole":true"#);
    vec![line(run, "taking", ""), line(run, "took", &fields)]
}

fn uncertain(run: &str, first: u64, last: u64) -> String {
    line(run, "uncertain", &format!(r#""first":{first},"last":{last}"#))
}

fn closed(run: &str, through: u64) -> String {
    line(run, "closed", &format!(r#""through":{through}"#))
}

/// Puts tensors 0, 1, 2 and closes.
fn sender(doubts: &[String]) -> Book {
    let mut lines = began("s", "sender");
    (0..3).for_each(|number| lines.extend(put("s", number, number)));
    lines.extend(doubts.iter().cloned());
    lines.push(closed("s", 3));
    book("left", "a", &lines)
}

/// Takes these tensors and hears the end.
fn receiver(pod: &str, numbers: &[u64]) -> Book {
    let mut lines = began(pod, "receiver");
    numbers.iter().for_each(|number| lines.extend(took(pod, "s", *number)));
    lines.push(line(pod, "ended", ""));
    book("right", pod, &lines)
}

/// Takes these tensors and dies; a second process hears the end.
fn dying_receiver(pod: &str, numbers: &[u64], rest: &[String]) -> Book {
    let mut lines = began("dead", "receiver");
    numbers.iter().for_each(|number| lines.extend(took("dead", "s", *number)));
    lines.extend(rest.iter().cloned());
    lines.extend(began("next", "receiver"));
    lines.push(line("next", "ended", ""));
    book("right", pod, &lines)
}

fn findings(books: &[Book], rules: &Rules) -> Vec<String> {
    judge(books, rules).findings.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn one(books: &[Book], rules: &Rules, words: &str) {
    let found = findings(books, rules);
    assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:#?}");
}

#[test]
fn promises_that_were_kept() {
    let books = [sender(&[]), receiver("x", &[0, 2]), receiver("y", &[1])];
    let verdict = judge(&books, &Rules::default());
    assert_eq!(verdict.findings, []);
    let figures = Figures { numbered: 3, confirmed: 3, taken: 3, ..Figures::default() };
    assert_eq!(verdict.figures, figures);
}

#[test]
fn twice() {
    let books = [sender(&[]), receiver("x", &[0, 1, 2]), receiver("y", &[1])];
    one(&books, &Rules::default(), "tensor 1 of a (s) was taken twice: x, y");
    let broadcast = Rules { delivery: Delivery::Broadcast, ..Rules::default() };
    let books = [sender(&[]), receiver("x", &[0, 1, 2]), receiver("y", &[0, 1, 2])];
    assert!(findings(&books, &broadcast).is_empty());
    let books = [sender(&[]), dying_receiver("x", &[0, 1, 2], &took("dead", "s", 2))];
    let found = findings(&books, &Rules { redirected: true, ..broadcast });
    assert_eq!(found, ["tensor 2 of a (s) was taken twice: x, x"]);
}

#[test]
fn a_confirmed_tensor_that_nobody_took_is_lost() {
    let books = [sender(&[]), receiver("x", &[0, 2])];
    one(&books, &Rules::default(), "tensor 1 of a (s), sequence 1, was confirmed, and right did not take it");
    // Another Peer's taking does not count for this one.
    let mut other = receiver("z", &[1]);
    other.peer = "third".to_owned();
    let found = findings(&[sender(&[]), receiver("x", &[0, 2]), other], &Rules::default());
    assert_eq!(found.len(), 3, "{found:#?}");
}

#[test]
fn a_replica_of_a_broadcast_that_misses_a_tensor_lost_it() {
    let rules = Rules { delivery: Delivery::Broadcast, ..Rules::default() };
    let books = [sender(&[]), receiver("x", &[0, 1, 2]), receiver("y", &[0, 2])];
    one(&books, &rules, "y did not take it");
    let given_up = Rules { lost: ["y".to_owned()].into(), ..rules };
    assert!(findings(&books, &given_up).is_empty(), "one that was given up is not waited for");
}

#[test]
fn one_tensor_may_die_in_the_hands_of_each_dead_receiver() {
    let books = [sender(&[]), dying_receiver("x", &[0, 1], &[line("dead", "taking", "")])];
    assert!(findings(&books, &Rules::default()).is_empty());
    let books = [sender(&[]), dying_receiver("x", &[0], &[line("dead", "taking", "")])];
    one(&books, &Rules::default(), "tensor 2 of a (s), sequence 2, was confirmed");
    let books = [sender(&[]), dying_receiver("x", &[0, 1], &[])];
    one(&books, &Rules::default(), "tensor 2 of a (s), sequence 2, was confirmed");
}

#[test]
fn doubts_need_a_lost_receiver() {
    let books = [sender(&[uncertain("s", 1, 1)]), receiver("x", &[0, 2])];
    one(&books, &Rules::default(), "uncertain: no receiver was lost");
    let lost = Rules { lost: ["x".to_owned()].into(), ..Rules::default() };
    assert!(findings(&books, &lost).is_empty());
    let books = [sender(&[uncertain("s", 1, 1)]), receiver("x", &[0]), receiver("y", &[1, 2])];
    one(&books, &lost, "uncertain: receivers that were never lost took it");
    let books = [sender(&[uncertain("s", 1, 1)]), dying_receiver("x", &[0, 1, 2], &[])];
    let verdict = judge(&books, &Rules::default());
    assert_eq!(verdict.findings, [], "a dead process is a cause");
    assert_eq!((verdict.figures.uncertain, verdict.figures.uncertain_taken), (1, 1));
}

#[test]
fn doubts_about_what_is_known() {
    let lost = Rules { lost: ["x".to_owned()].into(), ..Rules::default() };
    let flushed = line("s", "flushed", r#""through":3"#);
    let books = [sender(&[flushed, uncertain("s", 1, 1)]), receiver("x", &[0, 1, 2])];
    one(&books, &lost, "it was confirmed before");
    let books = [sender(&[uncertain("s", 9, 9)]), receiver("x", &[0, 1, 2])];
    one(&books, &lost, "sequence 9 of a is said to be uncertain: it was not numbered");
    let books = [sender(&[uncertain("s", 1, 1), uncertain("s", 1, 1)]), receiver("x", &[0, 2])];
    one(&books, &lost, "that was said before");
}

#[test]
fn what_was_taken_is_what_was_put() {
    for (from, to, what) in [
        (r#""whole":true"#, r#""whole":false"#, "with another bytes"),
        ("left/a", "left/b", "with another sender"),
        (r#""sequence":1"#, r#""sequence":7"#, "with another sequence"),
    ] {
        let mut lines = began("x", "receiver");
        for number in 0..3 {
            let spoilt = |line: String| if number == 1 { line.replace(from, to) } else { line };
            lines.extend(took("x", "s", number).into_iter().map(spoilt));
        }
        lines.push(line("x", "ended", ""));
        let rules = Rules { redirected: true, ..Rules::default() };
        one(&[sender(&[]), book("right", "x", &lines)], &rules, what);
    }
}

#[test]
fn nothing_comes_that_was_not_put() {
    let books = [sender(&[]), receiver("x", &[0, 1, 2, 3])];
    one(&books, &Rules::default(), "tensor 3 of a (s), which was not put");
    let mut lines = began("s", "sender");
    lines.push(line("s", "putting", r#""indexes":[0]"#));
    lines.push(line("s", "refused", r#""indexes":[0],"kind":"Timeout","reason":"Stalled""#));
    lines.push(closed("s", 1));
    let books = [book("left", "a", &lines), receiver("x", &[0])];
    let rules = Rules { refusals: true, ..Rules::default() };
    one(&books, &rules, "tensor 0 of a (s), which was not put");
    let books = [book("left", "a", &lines), receiver("x", &[])];
    one(&books, &Rules::default(), "was refused: Timeout/Stalled");
}

#[test]
fn order_of_each_sender() {
    let books = [sender(&[]), receiver("x", &[0, 2, 1])];
    one(&books, &Rules::default(), "x took tensor 1 of a (s), sequence 1, after sequence 2");
    assert!(findings(&books, &Rules { redirected: true, ..Rules::default() }).is_empty());
}

#[test]
fn numbers_grow_by_one() {
    let mut lines = began("s", "sender");
    lines.extend(put("s", 0, 1));
    lines.push(closed("s", 1));
    let mut taken = began("x", "receiver");
    taken.push(took("x", "s", 0).remove(1).replace(r#""sequence":0"#, r#""sequence":1"#));
    taken.push(line("x", "ended", ""));
    one(&[book("left", "a", &lines), book("right", "x", &taken)], &Rules::default(), "got sequence 1");
}

/// A sender that dies after two tensors, and its successor that closes.
fn dying_sender() -> Book {
    let mut lines = began("s", "sender");
    (0..2).for_each(|number| lines.extend(put("s", number, number)));
    lines.push(line("s", "putting", r#""indexes":[2]"#));
    lines.extend(began("s2", "sender"));
    lines.push(closed("s2", 0));
    book("left", "a", &lines)
}

#[test]
fn a_dead_sender_interrupts_once() {
    let interrupted = line("x", "interrupted", r#""sender":"left/a""#);
    let hearing = |times: usize| {
        let mut lines = began("x", "receiver");
        (0..3).for_each(|number| lines.extend(took("x", "s", number)));
        lines.extend(std::iter::repeat_n(interrupted.clone(), times));
        lines.push(line("x", "ended", ""));
        [dying_sender(), book("right", "x", &lines)]
    };
    let verdict = judge(&hearing(1), &Rules::default());
    assert_eq!(verdict.findings, [], "what it was about to put may have come");
    assert_eq!((verdict.figures.untold, verdict.figures.dead), (2, 1));
    one(&hearing(0), &Rules::default(), "heard of 0 interruptions of left/a, not of 1 to 1");
    one(&hearing(2), &Rules::default(), "heard of 2 interruptions of left/a, not of 1 to 1");
    let away = Rules { away: [("a".to_owned(), 1)].into(), ..Rules::default() };
    assert!(findings(&hearing(2), &away).is_empty());
}

#[test]
fn a_living_sender_interrupts_nobody() {
    let mut lines = began("x", "receiver");
    (0..3).for_each(|number| lines.extend(took("x", "s", number)));
    for sender in ["left/a", "left/stranger"] {
        let mut told = lines.clone();
        told.push(line("x", "interrupted", &format!(r#""sender":"{sender}""#)));
        told.push(line("x", "ended", ""));
        let books = [sender_alone(), book("right", "x", &told)];
        one(&books, &Rules::default(), &format!("heard of 1 interruptions of {sender}, not of 0 to 0"));
    }
}

fn sender_alone() -> Book {
    sender(&[])
}

#[test]
fn everybody_comes_to_an_end() {
    let mut lines = began("x", "receiver");
    (0..3).for_each(|number| lines.extend(took("x", "s", number)));
    let books = [sender(&[]), book("right", "x", &lines)];
    one(&books, &Rules::default(), "x (x) is not done");
    let gone = Rules { gone: ["x".to_owned()].into(), ..Rules::default() };
    assert!(findings(&books, &gone).is_empty());
    lines.push(line("x", "error", r#""during":"taking","kind":"Closed","reason":"Why","message":"m""#));
    let books = [sender(&[]), book("right", "x", &lines)];
    one(&books, &Rules::default(), "x (x) failed: taking: Closed/Why: m");
    let expected = Rules { errors: ["Closed/Why".to_owned()].into(), ..Rules::default() };
    assert!(findings(&books, &expected).is_empty());
}

#[test]
fn a_tensor_that_nobody_settled() {
    let mut lines = began("s", "sender");
    lines.extend(put("s", 0, 0));
    // The program closes after fewer tensors than it put.
    lines.push(closed("s", 0));
    let books = [book("left", "a", &lines), receiver("x", &[0])];
    one(&books, &Rules::default(), "its sender was never told what became of it");
}

#[test]
fn lines_that_no_program_writes() {
    for bad in ["{}", r#"{"event":"took","run":"x","millis":1}"#, r#"{"event":"ended","run":"x","millis":1}"#]
    {
        assert!(Book::parse("right", "x", bad).is_err(), "{bad}");
    }
}
