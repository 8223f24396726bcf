#[path = "../../zref.rs"]
mod zref;
use z12x::{models::*, writer::*, Reader};
use zref::*;
use std::collections::BTreeMap;
fn dt(x: &str) -> DType { serde_json::from_value(json!(x)).unwrap() }
fn cv(h: &str) -> BTreeMap<String, ciborium::Value> { ciborium::from_reader(&hex::decode(h).unwrap()[..]).unwrap() }
fn ch(x: &BTreeMap<String, ciborium::Value>) -> String { let mut b = vec![]; ciborium::into_writer(x, &mut b).unwrap(); hex::encode(b) }
macro_rules! by { ($d:expr, $m:ident, $r:expr, $n:expr) => { match $d { DType::F64 => f!($m,f64,$r,$n), DType::F32 => f!($m,f32,$r,$n), DType::I64=>f!($m,i64,$r,$n), DType::I32=>f!($m,i32,$r,$n),DType::I16=>f!($m,i16,$r,$n),DType::I8=>f!($m,i8,$r,$n),DType::U64=>f!($m,u64,$r,$n),DType::U32=>f!($m,u32,$r,$n),DType::U16=>f!($m,u16,$r,$n),DType::U8=>f!($m,u8,$r,$n), _=>Ok(b"untyped".to_vec()) } } }
macro_rules! f { (csr,$t:ty,$r:expr,$n:expr) => { $r.read_csr::<$t>($n).map(|c| { let mut v=le(&c.indptr); v.extend(le(&c.indices)); v.extend((c.values.len() as u64).to_le_bytes()); v }) };
 (coo,$t:ty,$r:expr,$n:expr) => { $r.read_coo::<$t>($n).map(|c| { let mut v: Vec<u8>=c.indices.iter().flat_map(|i| le(i)).collect(); v.extend((c.values.len() as u64).to_le_bytes()); v }) } }
fn main() {
    let a: Vec<String> = std::env::args().collect();
    match a[1].as_str() {
        "make" | "append" => {
            let sp = load(&a[2]);
            let mut w = if a[1] == "append" { Writer::append(&a[3]).unwrap() } else { Writer::create(&a[3]).unwrap() };
            if let Some(h) = sp.j["attributes"].as_str() { w.set_attributes(cv(h)) }
            for it in sp.items() {
                let e = if it["enc"] == "zstd" { Compression::Zstd(it["level"].as_i64().unwrap_or(3) as i32) } else { Compression::Raw };
                let c = match it["sum"].as_str() { Some("crc32c") => Checksum::Crc32c, Some("sha256") => Checksum::Sha256, _ => Checksum::None };
                let (n, sh) = (s(&it["name"]), u64s(&it["shape"]));
                let d = it["dtype"].as_str().map(dt).unwrap_or(DType::U8);
                let r = match it["kind"].as_str() {
                    Some("csr") => w.add_csr_bytes(n, sh, d, &sp.bytes(&it["values"]), &u64s(&it["indices"]), &u64s(&it["indptr"]), e, c),
                    Some("coo") => w.add_coo_bytes(n, sh, d, &sp.bytes(&it["values"]), &u64s(&it["coords"]), e, c),
                    Some("object") => {
                        let bufs: Vec<(String, DType, Option<String>, Vec<u8>)> = it["components"].as_array().unwrap().iter().map(|k| (s(&k["role"]).into(), dt(s(&k["dtype"])), k["type"].as_str().map(|x| x.to_string()), sp.bytes(&k["data"]))).collect();
                        let refs: Vec<(&str, DType, Option<&str>, &[u8])> = bufs.iter().map(|b| (b.0.as_str(), b.1, b.2.as_deref(), b.3.as_slice())).collect();
                        w.add_object(n, sh, Format::from_str(s(&it["format"])), &refs, it["attributes"].as_str().map(cv), e, c)
                    }
                    _ => w.add_bytes(n, sh, d, e, &sp.bytes(&it["data"]), c) };
                if let Err(e) = r { println!("add {}: {:?}", it["name"], e); std::process::exit(1) }
            }
            println!("{}", w.finish().unwrap());
        }
        "remove" => { let names: Vec<&str> = a[4..].iter().map(|x| x.as_str()).collect(); println!("{:?}", z12x::remove_tensors(&a[2], &a[3], &names)); }
        "replace" => { let b = std::fs::read(&a[4]).unwrap(); println!("{:?}", z12x::replace_tensor(&a[2], &a[3], &b)); }
        m => {
            let r = if m == "any" { Reader::open_any_path(&a[2]) } else { Reader::open(&a[2]) };
            let r = match r { Ok(r) => r, Err(e) => { println!("{}", json!({"open": format!("{:?}", e)})); return } };
            let man = r.manifest.clone();
            let ts: Vec<J> = man.objects.iter().map(|(n, t)| {
                let rd = if t.format == Format::Dense { bytes_or_err(|| r.read(n, true)) } else { json!(null) };
                let d = t.components.get("values").map(|c| c.dtype).unwrap_or(DType::Bool);
                let typed = if t.format == Format::SparseCsr { bytes_or_err(|| by!(d, csr, r, n)) } else if t.format == Format::SparseCoo { bytes_or_err(|| by!(d, coo, r, n)) } else { json!(null) };
                let cs: Vec<J> = t.components.iter().map(|(k, c)| { let x = bytes_or_err(|| r.read_component(c));
                    json!({"role": k, "dtype": c.dtype.as_str(), "type": c.r#type, "offset": c.offset, "length": c.length, "uncompressed_length": c.uncompressed_length, "encoding": format!("{:?}", c.encoding).to_lowercase(), "digest": c.digest, "read": x}) }).collect();
                json!({"name": n, "shape": t.shape, "format": t.format.as_str(), "read": rd, "typed": typed, "components": cs, "attributes": t.attributes.as_ref().map(ch)})
            }).collect();
            println!("{}", json!({"open": "ok", "version": man.version, "attributes": man.attributes.as_ref().map(ch), "tensors": ts}));
        }
    }
}
