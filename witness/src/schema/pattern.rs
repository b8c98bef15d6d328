//! How long a pattern is, written out. A linear engine takes time in the length of its
//! pattern times that of the text, and `[ab]{4000}` is four thousand long.

/// How long the elements of a pattern are together, counted repetitions multiplied: letters,
/// escapes and classes are one each, groups what is in them.
pub(super) fn length(pattern: &str) -> u64 {
    // Of each open group what it has so far, and the length of the last element.
    let (mut open, mut last) = (vec![0u64], 0u64);
    let mut rest = pattern.chars();
    while let Some(char) = rest.next() {
        let element = match char {
            '*' | '+' | '?' | '|' => continue,
            '(' => {
                open.push(0);
                last = 0;
                continue;
            }
            // A stray one is an element; the library refuses the whole.
            ')' if open.len() > 1 => open.pop().unwrap_or_default(),
            '{' => {
                let within: String = rest.by_ref().take_while(|char| *char != '}').collect();
                let numbers = within.split(|char: char| !char.is_ascii_digit()).filter(|text| !text.is_empty());
                // Too large for a number is too large for any engine.
                let times = numbers.map(|text| text.parse().unwrap_or(u64::MAX)).max().unwrap_or(1);
                let all = last.saturating_mul(times);
                if let Some(group) = open.last_mut() {
                    *group = group.saturating_sub(last).saturating_add(all);
                }
                last = all;
                continue;
            }
            '\\' => {
                rest.next();
                1
            }
            '[' => {
                // To its first `]`: where a class goes on after that, its rest counts too.
                while let Some(char) = rest.next() {
                    match char {
                        ']' => break,
                        '\\' => drop(rest.next()),
                        _ => {}
                    }
                }
                1
            }
            _ => 1,
        };
        last = element;
        if let Some(group) = open.last_mut() {
            *group = group.saturating_add(element);
        }
    }
    open.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_as_long_as_it_is_written_out() {
        for (pattern, expect) in [
            ("", 0),
            ("abc", 3),
            ("^a+$", 3),
            ("a{4000}", 4000),
            ("a{2,}", 2),
            ("a{,7}", 7),
            ("a{2,5}b", 6),
            ("(ab{3}){10}c", 41),
            ("(?:a|b){2}", 6),
            ("((a{10}){10}){10}", 1000),
            ("a{0}", 0),
            ("[a{5}()]{3}", 3),
            ("[\\]a]{3}", 3),
            ("\\({4}", 4),
            ("\\p{L}{5}", 5),
            ("a{99999999999999999999}", u64::MAX),
        ] {
            assert_eq!(length(pattern), expect, "{pattern}");
        }
    }
}
