//! In: the path and body of a request. Out: the call, with everything checked that can be checked without contacting another process.

use crate::error::Error;
use crate::messages::Asked;
use crate::name;
use crate::options::{self, Options};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Activate,
    Capabilities,
    List,
    Create { name: String, options: Options },
    Remove { name: String },
    Get { name: String },
    Path { name: String },
    Mount { name: String, id: String },
    Unmount { name: String, id: String },
}

pub fn parse(path: &str, body: &[u8]) -> Result<Call, Error> {
    match path {
        "/Plugin.Activate" => return Ok(Call::Activate),
        "/VolumeDriver.Capabilities" => return Ok(Call::Capabilities),
        "/VolumeDriver.List" => return Ok(Call::List),
        _ => {}
    }
    let asked: Asked = serde_json::from_slice(body).map_err(|error| Error::Malformed(error.to_string()))?;
    let Asked { name, id, opts } = asked;
    let call = match path {
        "/VolumeDriver.Create" => {
            name::check(&name)?;
            return options::check(opts.unwrap_or_default()).map(|options| Call::Create { name, options });
        }
        "/VolumeDriver.Remove" => Call::Remove { name: name.clone() },
        "/VolumeDriver.Get" => Call::Get { name: name.clone() },
        "/VolumeDriver.Path" => Call::Path { name: name.clone() },
        "/VolumeDriver.Mount" => Call::Mount { name: name.clone(), id: id.clone() },
        "/VolumeDriver.Unmount" => Call::Unmount { name: name.clone(), id: id.clone() },
        other => return Err(Error::UnknownCall(other.chars().take(100).collect())),
    };
    name::check(&name)?;
    if matches!(call, Call::Mount { .. } | Call::Unmount { .. }) {
        name::check(&id)?;
    }
    Ok(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_those_of_the_protocol() {
        let mount = Call::Mount { name: "v".to_owned(), id: "i".to_owned() };
        let rows = [
            ("/Plugin.Activate", "", Ok(Call::Activate)),
            ("/VolumeDriver.List", "{}", Ok(Call::List)),
            ("/VolumeDriver.Mount", r#"{"Name":"v","ID":"i","New":1}"#, Ok(mount)),
            ("/VolumeDriver.Path", r#"{"Name":"v"}"#, Ok(Call::Path { name: "v".to_owned() })),
            ("/VolumeDriver.Mount", r#"{"Name":"v"}"#, Err("cannot be the name")),
            ("/VolumeDriver.Mount", r#"{"Name":"v","ID":"../i"}"#, Err("cannot be the name")),
            ("/VolumeDriver.Remove", r#"{"Name":"../v"}"#, Err("cannot be the name")),
            ("/VolumeDriver.Create", r#"{"Name":"v","Opts":null}"#, Err("\"type\" is missing")),
            ("/VolumeDriver.Create", r#"{"Name":"v","Opts":{"type":1}}"#, Err("no request of the volume plugin protocol")),
            ("/VolumeDriver.Get", "null", Err("no request of the volume plugin protocol")),
            ("/VolumeDriver.Get", "[", Err("no request of the volume plugin protocol")),
            ("/VolumeDriver.Steal", r#"{"Name":"v"}"#, Err("there is no \"/VolumeDriver.Steal\"")),
        ];
        for (path, body, expected) in rows {
            match (parse(path, body.as_bytes()), expected) {
                (Ok(call), Ok(expected)) => assert_eq!(call, expected, "{path} {body}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{path} {body}: {error}"),
                (other, _) => panic!("{path} {body}: {other:?}"),
            }
        }
    }
}
