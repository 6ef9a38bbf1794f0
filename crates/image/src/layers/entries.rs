//! In: an archive. Out: its entries, one after the other, in constant memory.
//!
//! The `tar` crate decodes the header fields; the iteration is ours, because header extensions of a hostile archive can have any length,
//! and must be counted before they are read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek as _};

use crate::layers::entry::{self, Block, Entry, Extensions, Kind, unsigned};
use crate::layers::limits::{Budget, within};
use crate::layers::pax;
use crate::layers::sparse::{self, Segment};
use crate::layers::values::Error;

const BLOCK: u64 = 512;

#[derive(Debug)]
pub(crate) struct Entries<'a, R> {
    archive: R,
    pub(crate) budget: &'a mut Budget,
    /// Unread content of the current entry, and its padding to a full block.
    unread: u64,
    padding: u64,
    pass_over: PassOver<R>,
}

/// Skips this many bytes.
type PassOver<R> = fn(&mut R, u64) -> io::Result<()>;

impl<'a, R: BufRead> Entries<'a, R> {
    pub(crate) fn new(archive: R, budget: &'a mut Budget) -> Self {
        Self { archive, budget, unread: 0, padding: 0, pass_over: read_over }
    }

    /// The next entry; its content is read with [`Entries::content`].
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, Error> {
        let mut more = Extensions::default();
        let mut extended_by = 0;
        loop {
            self.skip()?;
            let Some(block) = self.header()? else { return Ok(None) };
            self.budget.spend_entry()?;
            let size = unsigned(&tar::Header::from_byte_slice(&block).as_old().size)?;
            let kind = block[156];
            if matches!(kind, b'L' | b'K' | b'x') {
                extended_by += size;
                within(extended_by, self.budget.limits.header_bytes, "bytes in the headers of an entry")?;
            }
            match kind {
                b'L' => more.long_name = Some(until_zero(self.extension(size)?)),
                b'K' => more.long_link = Some(until_zero(self.extension(size)?)),
                b'x' => more.pax = pax::parse(&self.extension(size)?, &self.budget.limits.clone())?,
                // A global header is a comment in practice.
                b'g' => self.begin(size)?,
                _ => return self.entry(&block, more).map(Some),
            }
        }
    }

    fn entry(&mut self, block: &Block, more: Extensions) -> Result<Entry, Error> {
        let map = if block[156] == b'S' { Some(self.gnu_map(block)?) } else { None };
        let limits = self.budget.limits;
        let mut entry = Entry::read(block, more, map, &limits)?;
        // Some writers give links and directories the size of what they refer to; no content follows.
        let has_content = matches!(entry.kind, Kind::File | Kind::Sparse { .. } | Kind::Unknown);
        self.begin(if has_content { entry.stored } else { 0 })?;
        if let Kind::Sparse { size, map } = &mut entry.kind {
            if map.is_none() {
                let (read, taken) = sparse::read_map(|| self.content_block(), limits.header_bytes)?;
                let rest = entry.stored.checked_sub(taken).ok_or(Error::Malformed("a sparse file shorter than its map"))?;
                *map = Some(sparse::checked(read, *size, rest)?);
            }
            self.budget.spend_bytes(size.saturating_sub(entry.stored))?;
        }
        Ok(entry)
    }

    /// A part of the current entry's content; empty at its end.
    pub(crate) fn content(&mut self) -> Result<&[u8], Error> {
        if self.unread == 0 {
            return Ok(&[]);
        }
        let ready = self.archive.fill_buf().map_err(Error::Read)?;
        if ready.is_empty() {
            return Err(Error::Malformed("it ends in the middle of a file"));
        }
        let length = usize::try_from(self.unread).map_or(ready.len(), |unread| unread.min(ready.len()));
        Ok(&ready[..length])
    }

    pub(crate) fn consume(&mut self, amount: usize) {
        self.archive.consume(amount);
        self.unread -= amount as u64;
    }

    /// The budget is checked before the content is read: an entry that is too large is not begun.
    fn begin(&mut self, size: u64) -> Result<(), Error> {
        self.padding = size.wrapping_neg() % BLOCK;
        self.budget.spend_bytes(size.saturating_add(self.padding))?;
        self.unread = size;
        Ok(())
    }

    /// An archive may end right after the last content: some writers leave out the padding.
    fn skip(&mut self) -> Result<(), Error> {
        let (unread, padding) = (self.unread, self.padding);
        (self.unread, self.padding) = (0, 0);
        let mut pass_over = |bytes| (self.pass_over)(&mut self.archive, bytes);
        pass_over(unread).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::Malformed("it ends in the middle of a file"),
            _ => Error::Read(error),
        })?;
        pass_over(padding).or_else(|error| if error.kind() == io::ErrorKind::UnexpectedEof { Ok(()) } else { Err(Error::Read(error)) })
    }

    /// `None`: the end, marked by a block of zeros or by EOF.
    fn header(&mut self) -> Result<Option<Block>, Error> {
        if self.archive.fill_buf().map_err(Error::Read)?.is_empty() {
            return Ok(None);
        }
        let block = self.block()?;
        if block == [0; BLOCK as usize] {
            return Ok(None);
        }
        if entry::checksum_holds(&block) { Ok(Some(block)) } else { Err(Error::Malformed("a header's checksum is wrong")) }
    }

    fn block(&mut self) -> Result<Block, Error> {
        self.budget.spend_bytes(BLOCK)?;
        let mut block = [0; BLOCK as usize];
        self.archive.read_exact(&mut block).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::Malformed("it ends in the middle of a header"),
            _ => Error::Read(error),
        })?;
        Ok(block)
    }

    fn content_block(&mut self) -> Result<Block, Error> {
        self.unread = self.unread.checked_sub(BLOCK).ok_or(Error::Malformed("a sparse file shorter than its map"))?;
        let mut block = [0; BLOCK as usize];
        self.archive.read_exact(&mut block).map_err(Error::Read)?;
        Ok(block)
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>, Error> {
        self.begin(size)?;
        let mut bytes = Vec::new();
        loop {
            let part = self.content()?;
            if part.is_empty() {
                return Ok(bytes);
            }
            bytes.extend_from_slice(part);
            let length = part.len();
            self.consume(length);
        }
    }

    /// Four segments are in the header, 21 in each block that follows it.
    fn gnu_map(&mut self, block: &Block) -> Result<Vec<Segment>, Error> {
        let gnu = tar::Header::from_byte_slice(block).as_gnu().ok_or(Error::Malformed("a sparse file of another format"))?;
        let mut map = Vec::new();
        let mut take = |parts: &[tar::GnuSparseHeader]| {
            for part in parts.iter().take_while(|part| !part.is_empty()) {
                map.push(Segment { offset: unsigned(&part.offset)?, length: unsigned(&part.numbytes)? });
            }
            Ok(())
        };
        take(&gnu.sparse)?;
        let mut goes_on = gnu.is_extended();
        let mut taken = 0;
        while goes_on {
            taken += BLOCK;
            within(taken, self.budget.limits.header_bytes, "bytes in the map of a sparse file")?;
            let mut next = tar::GnuExtSparseHeader::new();
            next.as_mut_bytes().copy_from_slice(&self.block()?);
            take(next.sparse())?;
            goes_on = next.is_extended();
        }
        Ok(map)
    }
}

impl<'a> Entries<'a, BufReader<File>> {
    /// For a file: content is skipped by seeking.
    pub(crate) fn of_file(file: File, budget: &'a mut Budget) -> Self {
        let seek = |file: &mut BufReader<File>, bytes: u64| file.seek_relative(bytes.cast_signed());
        Self { pass_over: seek, ..Self::new(BufReader::new(file), budget) }
    }

    /// The offset of the current entry's content.
    pub(crate) fn position(&mut self) -> io::Result<u64> {
        self.archive.stream_position()
    }
}

fn read_over(archive: &mut impl BufRead, bytes: u64) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let ready = archive.fill_buf()?.len();
        if ready == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let part = usize::try_from(left).map_or(ready, |left| left.min(ready));
        archive.consume(part);
        left -= part as u64;
    }
    Ok(())
}

fn until_zero(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    bytes
}
