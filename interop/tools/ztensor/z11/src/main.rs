#[path = "../../zref.rs"]
mod zref;
use z11x::{models::*, reader::ZTensorReader, writer::*};
use zref::*;
use std::collections::BTreeMap;
fn dt(x: &str) -> DType { serde_json::from_value(json!(x)).unwrap() }
macro_rules! by { ($d:expr, $m:ident, $r:expr, $n:expr) => { match $d { DType::F64 => f!($m,f64,$r,$n), DType::F32 => f!($m,f32,$r,$n), DType::I64=>f!($m,i64,$r,$n), DType::I32=>f!($m,i32,$r,$n),DType::I16=>f!($m,i16,$r,$n),DType::I8=>f!($m,i8,$r,$n),DType::U64=>f!($m,u64,$r,$n),DType::U32=>f!($m,u32,$r,$n),DType::U16=>f!($m,u16,$r,$n),DType::U8=>f!($m,u8,$r,$n), _=>Ok(b"untyped".to_vec()) } } }
macro_rules! f { (csr,$t:ty,$r:expr,$n:expr) => { $r.read_csr_object::<$t>($n).map(|c| { let mut v=le(&c.indptr); v.extend(le(&c.indices)); v.extend((c.values.len() as u64).to_le_bytes()); v }) };
 (coo,$t:ty,$r:expr,$n:expr) => { $r.read_coo_object::<$t>($n).map(|c| { let mut v: Vec<u8>=c.indices.iter().flat_map(|i| le(i)).collect(); v.extend((c.values.len() as u64).to_le_bytes()); v }) } }
fn main() {
    let a: Vec<String> = std::env::args().collect();
    match a[1].as_str() {
        "make" => {
            let sp = load(&a[2]);
            let mut w = ZTensorWriter::create(&a[3]).unwrap();
            if let Some(h) = sp.j["attributes"].as_str() { let m: BTreeMap<String, String> = serde_cbor::from_slice(&hex::decode(h).unwrap()).unwrap(); w.set_attributes(m) }
            for it in sp.items() {
                let e = if it["enc"] == "zstd" { Compression::Zstd(it["level"].as_i64().unwrap_or(3) as i32) } else { Compression::Raw };
                let c = match it["sum"].as_str() { Some("crc32c") => ChecksumAlgorithm::Crc32c, Some("sha256") => ChecksumAlgorithm::Sha256, _ => ChecksumAlgorithm::None };
                let (n, sh, d) = (s(&it["name"]), u64s(&it["shape"]), dt(s(&it["dtype"])));
                let r = match it["kind"].as_str() {
                    Some("csr") => w.add_csr_object_bytes(n, sh, d, &sp.bytes(&it["values"]), &u64s(&it["indices"]), &u64s(&it["indptr"]), e, c),
                    Some("coo") => w.add_coo_object_bytes(n, sh, d, &sp.bytes(&it["values"]), &u64s(&it["coords"]), e, c),
                    _ => w.add_object_bytes(n, sh, d, e, &sp.bytes(&it["data"]), c) };
                if let Err(e) = r { println!("add {}: {:?}", it["name"], e); std::process::exit(1) }
            }
            println!("{}", w.finalize().unwrap());
        }
        "legacy" => {
            let mut r = match z11x::LegacyReader::open(&a[2]) { Ok(r) => r, Err(e) => { println!("{}", json!({"open": format!("{:?}", e)})); return } };
            let l = r.list_objects().clone();
            let ts: Vec<J> = l.iter().map(|(n, t)| { let rd = bytes_or_err(|| r.read_object(n, true)); json!({"name": n, "shape": t.shape, "read": rd}) }).collect();
            println!("{}", json!({"open": "ok", "tensors": ts}));
        }
        _ => {
            let mut r = match ZTensorReader::open(&a[2]) { Ok(r) => r, Err(e) => { println!("{}", json!({"open": format!("{:?}", e)})); return } };
            let man = r.manifest.clone();
            let ts: Vec<J> = man.objects.iter().map(|(n, t)| {
                let rd = if t.format == "dense" { bytes_or_err(|| r.read_object(n, true)) } else { json!(null) };
                let d = t.components.get("values").map(|c| c.dtype).unwrap_or(DType::Bool);
                let typed = if t.format == "sparse_csr" { bytes_or_err(|| by!(d, csr, r, n)) } else if t.format == "sparse_coo" { bytes_or_err(|| by!(d, coo, r, n)) } else { json!(null) };
                let cs: Vec<J> = t.components.iter().map(|(k, c)| { let x = bytes_or_err(|| r.read_component(c));
                    json!({"role": k, "dtype": c.dtype.as_str(), "offset": c.offset, "length": c.length, "encoding": format!("{:?}", c.encoding).to_lowercase(), "digest": c.digest, "read": x}) }).collect();
                json!({"name": n, "shape": t.shape, "format": t.format, "read": rd, "typed": typed, "components": cs, "attributes": t.attributes.as_ref().map(|x| hex::encode(serde_cbor::to_vec(x).unwrap()))})
            }).collect();
            println!("{}", json!({"open": "ok", "version": man.version, "attributes": man.attributes.as_ref().map(|x| hex::encode(serde_cbor::to_vec(x).unwrap())), "tensors": ts}));
        }
    }
}
