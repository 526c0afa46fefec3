import { scaleEnd } from './scale-words.ts'

/** How numbers are written. */
export interface NumberNotation {
  /** See `NumericOptions`. */
  readonly decimalComma?: boolean
}

/** Expressions with the groups of {@link NumberParts}. */
export interface NumberGrammar {
  /** Each number of a text; what has digits and is no number is a match without parts. */
  readonly lexemes: RegExp
  /** A text that is one number with its unit. */
  readonly whole: RegExp
}

/** A number as it is written. */
export interface NumberParts {
  /** Of a base without `times`. */
  readonly digits: string
  readonly sign?: string
  /** The 2 of 2 1/2. */
  readonly units?: string
  readonly below?: string
  /** Whether `digits` is multiplied by a power of ten, and not the base of the power. */
  readonly times?: string
  readonly power?: string
  /** A word such as minus. */
  readonly negation?: string
  /** Words such as million. */
  readonly scale?: string
  /** A letter behind an amount of money, as in $3m. */
  readonly money?: string
  /** Where `below zero` follows: empty. */
  readonly below0?: string
  readonly percent?: string
}

const minus = String.raw`\-−–`
/** Letters of scripts that write words without spaces may stand beside a number. */
const letter = String.raw`(?![\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Thai}])\p{L}`
const notInWord = String.raw`(?!${letter}|[\p{M}\p{N}])`
const inWord = String.raw`(?:${letter}|[\p{M}\p{N}_])*`
const exponent = String.raw`\^ ?(?:\{[^{}]{1,20}\}|\([^()]{1,20}\)|[${minus}+]?[\p{L}\p{N}.]{1,9})`
/** A group of LaTeX, with groups in it. The limits keep the time linear. */
const group = String.raw`\{(?:[^{}]|\{[^{}]{0,50}\}){0,50}\}`

/** Symbols of units may follow a number without a space: 5km, but not 2x. */
const symbol = String.raw`(?:(?:da|[YZEPTGMkhdcmµμnf])?(?:m|g|s|A|mol|cd|Hz|N|Pa|J|Wh?|C|V|F|Ω|S|T|H|L|l|eV|bit|cal|bar|Ah)|[KkMGT]i?B|[kMG]bps|min|hr?s?|secs?|d|days?|wks?|yrs?|mo|mi|ft|in|yd|lbs?|oz|gal|mph|kph|kmh|fps|rpm|dpi|pp[mb]|px|pts?|deg|rad|ha|atm|mmHg|psi|dB|USD|EUR|GBP|JPY|CNY|INR|CHF)[23]?${notInWord}`
const scaled = scaleEnd(notInWord)
const noUnit = `(?:and|or|to|plus|minus|times|but|is|if)${notInWord}`
const unit = String.raw`(?:${symbol}|°(?:\s?[CF]${notInWord})?|\p{Sc}|(?:K|an?|in|of|sq|(?!${noUnit}|${scaled.unnamed})\p{L}{3,})${notInWord}\.?)(?:\s?${exponent}|\*\*\d+)?`

/** Words that negate, with what may stand between them and the number. */
const negating = String.raw`(?:[nN](?:egative?|EGATIVE)|[nN]eg\.?|[mM](?:inus|INUS|oins|enos|eno|ínus|iinus)|[mM]ínusz|[nN]egati[fv][oae]?|[nN]égatif|[eE]ksi|[мМ][иі]нус|[μΜ]είον|[âÂ]m|מינוס|سالب|ناقص)(?:[\s*_({$\x60~]|\p{Sc}){1,5}|(?:[负負]|マイナス|零下|ลบ|마이너스|음수)[\s*_({$]{0,3}`
const belowZero = String.raw`(?=[^.;!?\n\d]{0,40}?(?<!\p{L})(?:below|under) zero(?!\p{L}))`

const month = String.raw`(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}\.?`
const day = String.raw`\d{1,2}(?:st|nd|rd|th)?`

/** What has digits and is no number. */
const others = (thousands: string): readonly string[] => [
  String.raw`https?:\/\/\S+`,
  // Days, times and versions in words.
  String.raw`\b${day}(?: of)? ${month}(?:,? \d{4})?(?!\w)`,
  String.raw`\b${month} (?:${day}(?:,? \d{4}|(?![\d.,:]*\d|\s+\p{Ll}))|\d{4})(?!\w)`,
  String.raw`\b\d{1,2}(?::\d\d)?\s?[aApP](?:\.[mM]\.|[mM](?!\p{L}))|\b\d{1,2} o['’]clock|\b(?:UTC|GMT)[${minus}+]\d{1,2}`,
  String.raw`\b[vV]er(?:sion|s?\.)?\s+\d[\w.\-]*`,
  // Dates, times, versions and addresses have two separators or a colon, or are a year and a month.
  String.raw`(?!${thousands}(?![.\d]))\d+(?:(?:\.\d+){2,}|(?:[${minus}]\d+){2,}|(?:\/\d+){2,}|(?::\d+)+)${inWord}(?:[\-+.:](?:${letter}|\p{N})${inWord})*`,
  String.raw`(?<!\d)[12]\d{3}-[01]\d(?!\d)`,
  // A deviation, and the amount of a unit such as "per 100 g".
  String.raw`(?:±|\+\/-|\b[pP]lus(?:\sor\s|[\/\-])minus|\bper\s)\s*\d[\d.,]*`,
  // Words with digits, units with exponents, indices.
  String.raw`(?!(?:${negating})[${minus}+.]?\d)${letter}${inWord}(?:(?:[${minus}\/]|(?<=\p{N})[.:])\p{N}${inWord})*(?:(?<=_)\{[^{}]{0,50}\})?(?:\s?${exponent}|\*\*\d+(?!\d|\*\*))?`,
  String.raw`_\{[^{}]{0,50}\}`,
  // Parts of expressions: roots, fractions and powers of something else, divisors.
  String.raw`√\s?(?:${group}|\([^()]{0,50}\)|\d[\d.,]*)`,
  String.raw`\\[cdt]?frac\s?${group}\s?${group}`,
  String.raw`\([^()]{0,50}\)\s?${exponent}`,
  exponent,
  String.raw`\/\d[\d.,]*`,
]

/** The rest of a part of a larger number, such as 3,14 without a decimal comma. */
const rest = String.raw`\p{N}[\p{L}\p{M}\p{N}_.,:'’\/^\-]*`

function makeGrammar({ decimalComma = false }: NumberNotation): NumberGrammar {
  const [point, separator] = decimalComma ? ['[,.]', '.'] : [String.raw`\.`, ',']
  const thousands = String.raw`[1-9]\d{0,2}(?:[${separator}_'’ ]\d{3})+`
  const part = String.raw`(?:${thousands}(?![.\d])${decimalComma ? '(?:,\\d+)?' : ''}|(?:${thousands}|\d+)(?:${point}\d+)?|(?<![.\p{L}\p{N}])\.\d+)`
  const amount = String.raw`${part}(?:[eE][${minus}+]?\d{1,9})?`
  // A dash behind a number or a bracket subtracts, unless it stands as in "8 -5". One inside a word joins.
  const sign = String.raw`(?:(?<![\p{L}\p{N})\]}%°${minus}—])(?<sign>[${minus}+])(?![${minus}])(?:(?<![\p{N})\]}%°]\s{1,3}[${minus}+])[^\S\n]{1,2})?(?:[A-Z]{0,3}\p{Sc}\s?)?\(?)?`
  const negation = String.raw`(?:(?<!\p{L}|[\p{N})\]}%°]\s{1,3})(?<negation>${negating}))?`
  const power = String.raw`(?<times>\s?[×x*·⋅]\s?10)?(?:\^|\*\*)[{(]?\s?(?<power>[${minus}+]?\s?\d{1,9})\s?[})]?`
  const number = String.raw`${negation}${sign}(?:(?<units>\d{1,15})[^\S\n]{1,3}(?=\d+\s?\/\s?\d))?(?<digits>${amount})(?:\s?\/\s?(?<below>[${minus}]?${amount})|${power})?(?:(?<below0>${belowZero})|)`
  const percent = String.raw`\s?(?<percent>%|per ?cent${notInWord})`
  const plainEnd = String.raw`(?!${scaled.unnamed})(?:${percent}|(?=${symbol})|(?:st|nd|rd|ths?)?${notInWord})(?![.,'’_:]?\d)`
  const end = String.raw`(?:${scaled.named}|${plainEnd})(?!${exponent}|[√π]|\s?\\[cdt]?frac)`
  const units = String.raw`(?:(?:\s?(?=[°\p{Sc}])|(?=${symbol})|\s)${unit}(?:(?:\s?[\/·⋅×]\s?|[\s\-])${unit}){0,4})?`
  return {
    lexemes: new RegExp([...others(thousands), `${number}${end}`, rest].join('|'), 'gu'),
    whole: new RegExp(
      String.raw`^(?:[A-Z]{0,3}\p{Sc}\s?)?${number}(?:${scaled.named}\.?|${percent})?${units}\s?\.?$`,
      'u',
    ),
  }
}

const made = new Map<boolean, NumberGrammar>()

/** Made with the first number: most programs that load this module read none. */
export function numberGrammar({ decimalComma = false }: NumberNotation): NumberGrammar {
  const known = made.get(decimalComma)
  if (known !== undefined) return known
  const grammar = makeGrammar({ decimalComma })
  made.set(decimalComma, grammar)
  return grammar
}
