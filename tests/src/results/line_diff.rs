//! Which lines of a text are not those of another.

/// Columns of a line that are shown.
const SHOWN: usize = 160;

/// The lines that only `found` has, as `12 has: …`, and those that only `wanted` has, as `12 misses: …`. Each
/// has its number in its own text. Empty when both are the same to the byte.
pub(super) fn lines(found: &str, wanted: &str) -> Vec<String> {
    if found == wanted {
        return Vec::new();
    }
    let (has, misses): (Vec<&str>, Vec<&str>) = (found.split('\n').collect(), wanted.split('\n').collect());
    let same = has.iter().zip(&misses).take_while(|(a, b)| a == b).count();
    let (has, misses) = (&has[same..], &misses[same..]);
    let tail = has.iter().rev().zip(misses.iter().rev()).take_while(|(a, b)| a == b).count();
    walk(&has[..has.len() - tail], &misses[..misses.len() - tail], same + 1)
}

/// Walks through both texts along their longest common part. The first lines of both have the number `first`.
fn walk(has: &[&str], misses: &[&str], first: usize) -> Vec<String> {
    let common = common_parts(has, misses);
    let (mut a, mut b, mut differing) = (0, 0, Vec::new());
    while a < has.len() || b < misses.len() {
        if a < has.len() && b < misses.len() && has[a] == misses[b] {
            (a, b) = (a + 1, b + 1);
        } else if b == misses.len() || (a < has.len() && common[a + 1][b] >= common[a][b + 1]) {
            differing.push(format!("{} has: {}", first + a, shown(has[a])));
            a += 1;
        } else {
            differing.push(format!("{} misses: {}", first + b, shown(misses[b])));
            b += 1;
        }
    }
    differing
}

/// How many lines both have in common, in order, from line a of the one and line b of the other on.
fn common_parts(has: &[&str], misses: &[&str]) -> Vec<Vec<u32>> {
    let mut common = vec![vec![0; misses.len() + 1]; has.len() + 1];
    for a in (0..has.len()).rev() {
        for b in (0..misses.len()).rev() {
            common[a][b] = if has[a] == misses[b] {
                common[a + 1][b + 1] + 1
            } else {
                common[a + 1][b].max(common[a][b + 1])
            };
        }
    }
    common
}

fn shown(line: &str) -> String {
    let cut: String = line.chars().take(SHOWN).collect();
    if cut.len() < line.len() { cut + " …" } else { cut }
}
