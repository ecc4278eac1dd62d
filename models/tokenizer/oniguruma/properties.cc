#include "models/tokenizer/oniguruma/properties.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <span>

namespace serval::oniguruma {
namespace {

// A name, and its members as text between [ and ] of a PCRE2 class.
struct Named {
  std::string_view name;
  std::string_view members;
};

constexpr std::string_view kAlphabetic =
    R"(\p{Alphabetic}\x{363}-\x{36F}\x{C04}\x{F82}\x{F83}\x{1DD3}-\x{1DE6}\x{11080}\x{11081})";
constexpr std::string_view kAlnum =
    R"(\p{Alphabetic}\p{Nd}\x{363}-\x{36F}\x{C04}\x{F82}\x{F83}\x{1DD3}-\x{1DE6}\x{11080}\x{11081})";
constexpr std::string_view kLowercase = R"(\p{Lowercase}\x{10FC}\x{A7F2}-\x{A7F4}\x{AB69})";
constexpr std::string_view kHexDigit = "0-9A-Fa-f";
constexpr std::string_view kSpace = R"(\p{White_Space})";
constexpr std::string_view kDigit = R"(\p{Nd})";
constexpr std::string_view kBlank = R"(\p{Zs}\t)";
constexpr std::string_view kAscii = R"(\x{0}-\x{7F})";
constexpr std::string_view kWordInBrackets = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
constexpr std::string_view kAnything = R"(\x{0}-\x{10FFFF})";
// Characters that are not in [:graph:] and [:print:].
constexpr std::string_view kNotGraph = R"(\p{White_Space}\p{Cc}\p{Cn}\p{Cs})";
constexpr std::string_view kNotPrint = R"(\p{Cc}\p{Cn}\p{Cs}\x{2028}\x{2029})";

// Long names of general categories (PropertyValueAliases.txt, gc).
constexpr Named kCategories[] = {
    {"Letter", R"(\p{L})"},
    {"Uppercase_Letter", R"(\p{Lu})"},
    {"Lowercase_Letter", R"(\p{Ll})"},
    {"Titlecase_Letter", R"(\p{Lt})"},
    {"Cased_Letter", R"(\p{Lu}\p{Ll}\p{Lt})"},
    {"Modifier_Letter", R"(\p{Lm})"},
    {"Other_Letter", R"(\p{Lo})"},
    {"Mark", R"(\p{M})"},
    {"Spacing_Mark", R"(\p{Mc}\x{1171E})"},
    {"Enclosing_Mark", R"(\p{Me})"},
    {"Number", R"(\p{N})"},
    {"Decimal_Number", R"(\p{Nd})"},
    {"Letter_Number", R"(\p{Nl})"},
    {"Other_Number", R"(\p{No})"},
    {"Punctuation", R"(\p{P})"},
    {"Connector_Punctuation", R"(\p{Pc})"},
    {"Dash_Punctuation", R"(\p{Pd})"},
    {"Open_Punctuation", R"(\p{Ps})"},
    {"Close_Punctuation", R"(\p{Pe})"},
    {"Initial_Punctuation", R"(\p{Pi})"},
    {"Final_Punctuation", R"(\p{Pf})"},
    {"Other_Punctuation", R"(\p{Po})"},
    {"Symbol", R"(\p{S})"},
    {"Math_Symbol", R"(\p{Sm})"},
    {"Currency_Symbol", R"(\p{Sc})"},
    {"Modifier_Symbol", R"(\p{Sk})"},
    {"Other_Symbol", R"(\p{So})"},
    {"Separator", R"(\p{Z})"},
    {"Space_Separator", R"(\p{Zs})"},
    {"Line_Separator", R"(\p{Zl})"},
    {"Paragraph_Separator", R"(\p{Zp})"},
    {"Other", R"(\p{C})"},
    {"Control", R"(\p{Cc})"},
    {"Format", R"(\p{Cf})"},
    {"Private_Use", R"(\p{Co})"},
    {"Unassigned", R"(\p{Cn})"},
    {"LC", R"(\p{Lu}\p{Ll}\p{Lt})"},
    {"Mc", R"(\p{Mc}\x{1171E})"},
};

constexpr std::string_view kShortCategories[] = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Co", "Cn"};

// Properties with the same name and characters in Oniguruma and PCRE2.
constexpr std::string_view kBinary[] = {
    "ASCII_Hex_Digit", "Dash",        "Emoji", "Emoji_Presentation", "Extended_Pictographic",
    "Hex_Digit",       "Ideographic", "Math",  "Quotation_Mark",     "Unified_Ideograph",
    "Uppercase",       "White_Space"};

constexpr Named kOther[] = {
    {"Any", kAnything},        {"ASCII", kAscii},     {"Alphabetic", kAlphabetic},
    {"Lowercase", kLowercase}, {"Punct", R"(\p{P})"}, {"Word", kWord},
};

constexpr Named kPosix[] = {
    {"alnum", kAlnum},     {"alpha", kAlphabetic}, {"blank", kBlank}, {"cntrl", R"(\p{Cc})"},
    {"digit", kDigit},     {"lower", kLowercase},  {"space", kSpace}, {"upper", R"(\p{Uppercase})"},
    {"xdigit", kHexDigit},
};

// Scripts of Unicode 14, without script extensions.
constexpr std::string_view kScripts[] = {"Adlam",
                                         "Ahom",
                                         "Anatolian_Hieroglyphs",
                                         "Arabic",
                                         "Armenian",
                                         "Avestan",
                                         "Balinese",
                                         "Bamum",
                                         "Bassa_Vah",
                                         "Batak",
                                         "Bengali",
                                         "Bhaiksuki",
                                         "Bopomofo",
                                         "Brahmi",
                                         "Braille",
                                         "Buginese",
                                         "Buhid",
                                         "Canadian_Aboriginal",
                                         "Carian",
                                         "Caucasian_Albanian",
                                         "Chakma",
                                         "Cham",
                                         "Cherokee",
                                         "Chorasmian",
                                         "Common",
                                         "Coptic",
                                         "Cuneiform",
                                         "Cypriot",
                                         "Cypro_Minoan",
                                         "Cyrillic",
                                         "Deseret",
                                         "Devanagari",
                                         "Dives_Akuru",
                                         "Dogra",
                                         "Duployan",
                                         "Egyptian_Hieroglyphs",
                                         "Elbasan",
                                         "Elymaic",
                                         "Ethiopic",
                                         "Georgian",
                                         "Glagolitic",
                                         "Gothic",
                                         "Grantha",
                                         "Greek",
                                         "Gujarati",
                                         "Gunjala_Gondi",
                                         "Gurmukhi",
                                         "Han",
                                         "Hangul",
                                         "Hanifi_Rohingya",
                                         "Hanunoo",
                                         "Hatran",
                                         "Hebrew",
                                         "Hiragana",
                                         "Imperial_Aramaic",
                                         "Inherited",
                                         "Inscriptional_Pahlavi",
                                         "Inscriptional_Parthian",
                                         "Javanese",
                                         "Kaithi",
                                         "Kannada",
                                         "Katakana",
                                         "Kayah_Li",
                                         "Kharoshthi",
                                         "Khitan_Small_Script",
                                         "Khmer",
                                         "Khojki",
                                         "Khudawadi",
                                         "Lao",
                                         "Latin",
                                         "Lepcha",
                                         "Limbu",
                                         "Linear_A",
                                         "Linear_B",
                                         "Lisu",
                                         "Lycian",
                                         "Lydian",
                                         "Mahajani",
                                         "Makasar",
                                         "Malayalam",
                                         "Mandaic",
                                         "Manichaean",
                                         "Marchen",
                                         "Masaram_Gondi",
                                         "Medefaidrin",
                                         "Meetei_Mayek",
                                         "Mende_Kikakui",
                                         "Meroitic_Cursive",
                                         "Meroitic_Hieroglyphs",
                                         "Miao",
                                         "Modi",
                                         "Mongolian",
                                         "Mro",
                                         "Multani",
                                         "Myanmar",
                                         "Nabataean",
                                         "Nandinagari",
                                         "New_Tai_Lue",
                                         "Newa",
                                         "Nko",
                                         "Nushu",
                                         "Nyiakeng_Puachue_Hmong",
                                         "Ogham",
                                         "Ol_Chiki",
                                         "Old_Hungarian",
                                         "Old_Italic",
                                         "Old_North_Arabian",
                                         "Old_Permic",
                                         "Old_Persian",
                                         "Old_Sogdian",
                                         "Old_South_Arabian",
                                         "Old_Turkic",
                                         "Old_Uyghur",
                                         "Oriya",
                                         "Osage",
                                         "Osmanya",
                                         "Pahawh_Hmong",
                                         "Palmyrene",
                                         "Pau_Cin_Hau",
                                         "Phags_Pa",
                                         "Phoenician",
                                         "Psalter_Pahlavi",
                                         "Rejang",
                                         "Runic",
                                         "Samaritan",
                                         "Saurashtra",
                                         "Sharada",
                                         "Shavian",
                                         "Siddham",
                                         "SignWriting",
                                         "Sinhala",
                                         "Sogdian",
                                         "Sora_Sompeng",
                                         "Soyombo",
                                         "Sundanese",
                                         "Syloti_Nagri",
                                         "Syriac",
                                         "Tagalog",
                                         "Tagbanwa",
                                         "Tai_Le",
                                         "Tai_Tham",
                                         "Tai_Viet",
                                         "Takri",
                                         "Tamil",
                                         "Tangsa",
                                         "Tangut",
                                         "Telugu",
                                         "Thaana",
                                         "Thai",
                                         "Tibetan",
                                         "Tifinagh",
                                         "Tirhuta",
                                         "Toto",
                                         "Ugaritic",
                                         "Vai",
                                         "Vithkuqi",
                                         "Wancho",
                                         "Warang_Citi",
                                         "Yezidi",
                                         "Yi",
                                         "Zanabazar_Square"};

std::string normalized_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

std::optional<std::string_view> find(std::span<const std::string_view> names, std::string_view wanted) {
  const auto found = std::find_if(names.begin(), names.end(), [wanted](std::string_view name) {
    return normalized_name(name) == wanted;
  });
  return found == names.end() ? std::nullopt : std::optional(*found);
}

std::optional<CharacterSet> find(std::span<const Named> sets, std::string_view wanted) {
  for (const Named& set : sets) {
    if (normalized_name(set.name) == wanted) return CharacterSet{std::string(set.members), {}};
  }
  return std::nullopt;
}

CharacterSet without(std::string_view members) {
  return {"", {fmt::format("[^{}]", members)}};
}

// U+1171E was a nonspacing mark in Unicode 14 and is a spacing mark in later versions.
CharacterSet nonspacing_mark() {
  return {"", {R"((?:(?!\x{1171E})\p{Mn}))"}};
}

// Sets that both \p{…} and [:…:] support, by their normalized name.
std::optional<CharacterSet> posix_property(std::string_view wanted) {
  if (wanted == "graph") return without(kNotGraph);
  if (wanted == "print") return without(kNotPrint);
  return find(kPosix, wanted);
}

}  // namespace

std::optional<CharacterSet> property(std::string_view name) {
  const std::string wanted = normalized_name(name);
  if (wanted == "mn" || wanted == "nonspacingmark") return nonspacing_mark();
  if (wanted == "assigned") return without(R"(\p{Cn})");
  for (const auto& list : {std::span<const Named>(kCategories), std::span<const Named>(kOther)}) {
    if (auto set = find(list, wanted)) return set;
  }
  for (const auto& list :
       {std::span<const std::string_view>(kShortCategories), std::span<const std::string_view>(kBinary)}) {
    if (const auto found = find(list, wanted)) return CharacterSet{fmt::format("\\p{{{}}}", *found), {}};
  }
  if (const auto script = find(kScripts, wanted)) {
    return CharacterSet{fmt::format("\\p{{sc:{}}}", *script), {}};
  }
  return posix_property(wanted);
}

std::optional<CharacterSet> posix_bracket(std::string_view name) {
  if (name == "ascii") return CharacterSet{std::string(kAscii), {}};
  if (name == "word") return CharacterSet{std::string(kWordInBrackets), {}};
  if (name == "punct") return CharacterSet{R"(\p{P}\p{S})", {}};
  return posix_property(name);
}

std::optional<CharacterSet> shorthand(char letter, bool in_brackets) {
  if (letter == 's') return CharacterSet{std::string(kSpace), {}};
  if (letter == 'd') return CharacterSet{std::string(kDigit), {}};
  if (letter == 'h') return CharacterSet{std::string(kHexDigit), {}};
  if (letter == 'w') return CharacterSet{std::string(in_brackets ? kWordInBrackets : kWord), {}};
  return std::nullopt;
}

std::vector<std::string> property_names() {
  std::vector<std::string> names = {"Mn", "Nonspacing_Mark", "Assigned", "Graph", "Print"};
  for (const auto& list : {std::span<const Named>(kCategories), std::span<const Named>(kOther),
                           std::span<const Named>(kPosix)}) {
    for (const Named& set : list) names.emplace_back(set.name);
  }
  for (const auto& list :
       {std::span<const std::string_view>(kShortCategories), std::span<const std::string_view>(kBinary),
        std::span<const std::string_view>(kScripts)}) {
    names.insert(names.end(), list.begin(), list.end());
  }
  return names;
}

std::vector<std::string> posix_bracket_names() {
  std::vector<std::string> names = {"ascii", "word", "punct", "graph", "print"};
  for (const Named& set : kPosix) names.emplace_back(set.name);
  return names;
}

}  // namespace serval::oniguruma
