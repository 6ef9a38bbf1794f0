//! In: a word that is not known, and those that are. Out: the one that was probably meant. For every "did you mean".

/// The most similar of the known words, if it is similar enough to be a slip: a letter too many, too few or in the wrong place.
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = unknown.to_lowercase();
    let distance = |word: &str| strsim::damerau_levenshtein(&folded, &word.to_lowercase());
    let (distance, word) = known.into_iter().map(|word| (distance(word), word)).min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + unknown.chars().count() / 4).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognized_and_another_word_is_not() {
        let known = ["nfs", "nfs4", "sshfs", "fuse.sshfs", "glusterfs", "smb3"];
        let rows = [
            ("sshsf", Some("sshfs")),
            ("SSHFS", Some("sshfs")),
            ("nsf", Some("nfs")),
            ("smb", Some("smb3")),
            ("glusterf", Some("glusterfs")),
            ("fuse.shsfs", Some("fuse.sshfs")),
            ("ext4", None),
            ("quobyte", None),
            ("", None),
        ];
        for (unknown, expected) in rows {
            assert_eq!(nearest(unknown, known), expected, "{unknown}");
        }
        assert_eq!(nearest("x", []), None);
    }
}
