#[path = "../../zref.rs"]
mod zref;
use z01x::{models::*, reader::ZTensorReader, writer::ZTensorWriter};
use zref::*;
use std::collections::BTreeMap;
fn dt(x: &str) -> DType { serde_json::from_value(json!(x)).unwrap() }
fn main() {
    let a: Vec<String> = std::env::args().collect();
    match a[1].as_str() {
        "make" => {
            let sp = load(&a[2]);
            let mut w = ZTensorWriter::create(&a[3]).unwrap();
            for it in sp.items() {
                let custom: Option<BTreeMap<String, serde_cbor::Value>> = it["custom"].as_str().map(|h| serde_cbor::from_slice(&hex::decode(h).unwrap()).unwrap());
                let layout = match it["layout"].as_str() { Some("sparsecsr") => Layout::SparseCsr, Some("sparsecoo") => Layout::SparseCoo, _ => Layout::Dense };
                let end = match it["endian"].as_str() { Some("big") => Some(DataEndianness::Big), Some("little") => Some(DataEndianness::Little), _ => None };
                let r = w.add_tensor(s(&it["name"]), u64s(&it["shape"]), dt(s(&it["dtype"])), layout,
                    if it["enc"] == "zstd" { Encoding::Zstd } else { Encoding::Raw }, sp.bytes(&it["data"]), end,
                    if it["sum"] == "crc32c" { ChecksumAlgorithm::Crc32c } else { ChecksumAlgorithm::None }, custom);
                if let Err(e) = r { println!("add {}: {:?}", it["name"], e); std::process::exit(1) }
            }
            println!("{}", w.finalize().unwrap());
        }
        _ => {
            let mut r = match ZTensorReader::open(&a[2]) { Ok(r) => r, Err(e) => { println!("{}", json!({"open": format!("{:?}", e)})); return } };
            let l = r.list_tensors().clone();
            let ts: Vec<J> = l.iter().map(|m| {
                let rd = bytes_or_err(|| r.read_raw_tensor_data(m));
                json!({"name": m.name, "dtype": m.dtype.to_string_key(), "shape": m.shape, "format": format!("{:?}", m.layout).to_lowercase(), "offset": m.offset, "length": m.size,
                 "encoding": format!("{:?}", m.encoding).to_lowercase(), "endian": m.data_endianness.as_ref().map(|e| format!("{:?}", e).to_lowercase()), "digest": m.checksum,
                 "custom": hex::encode(serde_cbor::to_vec(&m.custom_fields).unwrap()), "read": rd})
            }).collect();
            println!("{}", json!({"open": "ok", "tensors": ts}));
        }
    }
}
