//! In: `catalogue/*.toml`, as people write it. Out: the same as JSON, by name: every mount reads a definition, and would spend as long
//! on that as on the rest of its plan.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=catalogue");
    let mut files = fs::read_dir("catalogue")?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    files.sort_by(|one, other| one.file_stem().cmp(&other.file_stem()));
    let mut catalogue = Vec::new();
    for file in &files {
        let name = file.file_stem().and_then(|name| name.to_str()).ok_or_else(|| format!("{}: no name", file.display()))?;
        let definition: toml::Table = fs::read_to_string(file)?.parse().map_err(|error| format!("{}: {error}", file.display()))?;
        catalogue.push((name, serde_json::to_string(&definition)?));
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    Ok(fs::write(out.join("catalogue.rs"), format!("&{catalogue:?}"))?)
}
