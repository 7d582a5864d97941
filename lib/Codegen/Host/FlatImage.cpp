//===- FlatImage.cpp - Objects laid out as one image ----------------------===//
//
// A linker for what our code generator makes: code and constants that refer to
// each other by 32-bit distances. Anything else (data that is written, absolute
// addresses, undefined symbols) is an error, so that an image that links runs
// wherever it is mapped.
//
//===----------------------------------------------------------------------===//

#include "Generate.h"

#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"

using namespace fusion;
using namespace fusion::codegen::host;
using namespace llvm;
using namespace llvm::object;

namespace {
struct Linker {
  explicit Linker(FlatImage &image) : image(image) {}
  FlatImage &image;

  /// Copies the loaded sections; code first over all objects.
  Error place(const ELF64LEObjectFile &object, unsigned number, bool code);
  Error relocate(const ELF64LEObjectFile &object, unsigned number);
  Error collectEntries(const ELF64LEObjectFile &object, unsigned number);

  Expected<uint64_t> addressOf(const SymbolRef &symbol, unsigned number);
  std::map<std::pair<unsigned, uint64_t>, uint64_t> sections;
};
} // namespace

static bool isLoaded(const ELFSectionRef &section) {
  return (section.getFlags() & ELF::SHF_ALLOC) && section.getSize() > 0;
}

static Error fault(const Twine &what) {
  return createStringError("cannot link the host kernels: " + what);
}

Error Linker::place(const ELF64LEObjectFile &object, unsigned number,
                    bool code) {
  for (const SectionRef &s : object.sections()) {
    ELFSectionRef section(s);
    if (!isLoaded(section) || section.isText() != code)
      continue;
    StringRef name = cantFail(section.getName());
    if (name == ".eh_frame")
      continue; // nothing unwinds through a kernel
    if (section.getFlags() & ELF::SHF_WRITE)
      return fault("section '" + name + "' is written to");
    uint64_t offset = alignTo(
        image.bytes.size(),
        std::max<uint64_t>(section.getAlignment().value(), code ? 64 : 1));
    image.bytes.resize(offset, code ? 0xcc : 0);
    StringRef contents = cantFail(section.getContents());
    image.bytes.insert(image.bytes.end(), contents.begin(), contents.end());
    sections[{number, section.getIndex()}] = offset;
  }
  return Error::success();
}

Expected<uint64_t> Linker::addressOf(const SymbolRef &symbol, unsigned number) {
  auto section = symbol.getSection();
  if (!section)
    return section.takeError();
  auto name = symbol.getName();
  if (*section == symbol.getObject()->section_end())
    return fault("symbol '" + (name ? *name : StringRef("?")) +
                 "' is undefined");
  auto it = sections.find({number, (*section)->getIndex()});
  if (it == sections.end())
    return fault("a reference to a section that is not loaded");
  auto value = symbol.getValue();
  if (!value)
    return value.takeError();
  return it->second + *value;
}

Error Linker::relocate(const ELF64LEObjectFile &object, unsigned number) {
  for (const SectionRef &s : object.sections()) {
    auto target = s.getRelocatedSection();
    if (!target)
      return target.takeError();
    if (*target == object.section_end())
      continue;
    auto base = sections.find({number, (*target)->getIndex()});
    if (base == sections.end())
      continue; // of a section that is not loaded
    for (const RelocationRef &relocation : s.relocations()) {
      SmallString<32> type;
      relocation.getTypeName(type);
      uint64_t kind = relocation.getType();
      if (kind != ELF::R_X86_64_PC32 && kind != ELF::R_X86_64_PLT32)
        return fault("relocation " + type + " is not position-independent");
      auto address = addressOf(*relocation.getSymbol(), number);
      if (!address)
        return address.takeError();
      auto addend = ELFRelocationRef(relocation).getAddend();
      if (!addend)
        return addend.takeError();
      uint64_t place = base->second + relocation.getOffset();
      int64_t distance = int64_t(*address) + *addend - int64_t(place);
      if (!isInt<32>(distance))
        return fault("the image is larger than 2 GiB");
      support::endian::write32le(image.bytes.data() + place, distance);
    }
  }
  return Error::success();
}

Error Linker::collectEntries(const ELF64LEObjectFile &object, unsigned number) {
  for (const ELFSymbolRef symbol : object.symbols()) {
    if (symbol.getBinding() != ELF::STB_GLOBAL)
      continue;
    auto name = symbol.getName();
    if (!name)
      return name.takeError();
    auto address = addressOf(symbol, number);
    if (!address)
      return address.takeError();
    image.entries[name->str()] = *address;
  }
  return Error::success();
}

Expected<FlatImage> codegen::host::linkFlat(ArrayRef<ObjectBytes> objects) {
  FlatImage image;
  Linker linker(image);
  std::vector<std::unique_ptr<ObjectFile>> files;
  for (const ObjectBytes &bytes : objects) {
    auto file = ObjectFile::createELFObjectFile(
        MemoryBufferRef(StringRef(bytes.data(), bytes.size()), "kernel"));
    if (!file)
      return file.takeError();
    files.push_back(std::move(*file));
  }
  auto each = [&](auto step) -> Error {
    for (unsigned i = 0; i < files.size(); ++i)
      if (Error e = step(*cast<ELF64LEObjectFile>(files[i].get()), i))
        return e;
    return Error::success();
  };
  using Object = const ELF64LEObjectFile &;
  for (bool code : {true, false})
    if (Error e = each(
            [&](Object o, unsigned i) { return linker.place(o, i, code); }))
      return e;
  if (Error e =
          each([&](Object o, unsigned i) { return linker.relocate(o, i); }))
    return e;
  if (Error e = each(
          [&](Object o, unsigned i) { return linker.collectEntries(o, i); }))
    return e;
  return image;
}
