import { numberGrammar, type NumberNotation, type NumberParts } from './number-grammar.ts'
import { moneyFactor, scaleFactor } from './scale-words.ts'

/** A number without rounding: `above / below`. */
export interface ExactNumber {
  readonly above: bigint
  /** Greater than 0. */
  readonly below: bigint
  /** Whether a percent sign follows. */
  readonly isPercent?: boolean
}

/** The last number of a text; undefined when there is none, or when it has no value, as 1/0. */
export function lastNumber(text: string, notation: NumberNotation): ExactNumber | undefined {
  const { lexemes } = numberGrammar(notation)
  const plain = plainMath(text)
  let last: Found | undefined
  for (const { groups, index, 0: written } of plain.matchAll(lexemes)) {
    if (groups?.['digits'] === undefined) continue
    const parts = groups as unknown as NumberParts
    const value = valueOf(parts, notation)
    const isRest = last !== undefined && addsTo(last, value, plain.slice(last.end, index))
    const sum = isRest ? added(last?.value, value) : value
    const scale = isRest ? last?.scale : scaleOf(parts)
    last = { value: sum, scale, end: index + written.length }
  }
  return last?.value
}

interface Found {
  readonly value: ExactNumber | undefined
  readonly scale: bigint | undefined
  /** Where it ends in the text. */
  readonly end: number
}

/** Whether a number continues the one before it, as the 5 of `3 hundred and 5` and of 3万5. */
function addsTo(last: Found, value: ExactNumber | undefined, between: string): boolean {
  if (last.scale === undefined || value === undefined || value.above < 0n) return false
  return value.above < last.scale * value.below && /^\s?(?:and\s)?$/.test(between)
}

/** The number that a text is as a whole, with its unit; undefined when it is anything else. */
export function wholeNumber(text: string, notation: NumberNotation): ExactNumber | undefined {
  const { whole } = numberGrammar(notation)
  const parts = whole.exec(withoutBrackets(plainMath(text)))?.groups
  return parts && valueOf(parts as unknown as NumberParts, notation)
}

const brackets = [/^\{((?:[^{}]|\{[^{}]*\})*)\}$/, /^\(((?:[^()]|\([^()]*\))*)\)$/, /^\$([^$]*)\$$/]

function withoutBrackets(text: string): string {
  const trimmed = text.trim()
  for (const pair of brackets) {
    const [, inner] = pair.exec(trimmed) ?? []
    if (inner !== undefined) return withoutBrackets(inner)
  }
  return trimmed
}

/** More digits than any double has. Larger powers would take long. */
const mostZeros = 400

function valueOf(parts: NumberParts, notation: NumberNotation): ExactNumber | undefined {
  const { digits, units, below, times, power, scale, money, percent } = parts
  let value = exactDecimal(digits, notation)
  if (power !== undefined) {
    value = times === undefined ? raised(value, power) : multiplied(value, raised(ten, power))
  }
  if (below !== undefined) value = multiplied(value, inverse(exactDecimal(below, notation)))
  if (value !== undefined && units !== undefined) {
    // 2 3/2 may be a product.
    if (value.above >= value.below) return undefined
    value = { above: BigInt(units) * value.below + value.above, below: value.below }
  }
  if (scale !== undefined || money !== undefined) {
    const factor = scaleOf(parts)
    value = factor === undefined ? undefined : multiplied(value, { above: factor, below: 1n })
  }
  if (value === undefined) return undefined
  const signs = [/[-−–]/.test(parts.sign ?? ''), parts.negation !== undefined, parts.below0 === '']
  const isNegative = signs.some(Boolean)
  const above = isNegative ? -value.above : value.above
  return { above, below: value.below, isPercent: percent !== undefined }
}

/** By how much the words behind a number multiply it; undefined without any, and when that is not clear. */
function scaleOf({ scale, money }: NumberParts): bigint | undefined {
  if (money !== undefined) return moneyFactor(money)
  return scale === undefined ? undefined : scaleFactor(scale)
}

function added(
  one: ExactNumber | undefined,
  other: ExactNumber | undefined,
): ExactNumber | undefined {
  if (one === undefined || other === undefined) return undefined
  const rest = one.above < 0n ? -other.above : other.above
  return { above: one.above * other.below + rest * one.below, below: one.below * other.below }
}

const ten: ExactNumber = { above: 10n, below: 1n }

/** The value of a decimal number such as 1,234.5e-3; undefined beyond 400 zeros. */
export function exactDecimal(
  written: string,
  { decimalComma = false }: NumberNotation = {},
): ExactNumber | undefined {
  const [amount = '', exponent = '0'] = withoutThousands(written, decimalComma).split(/e/i)
  const [whole = '', part = ''] = amount.split('.')
  const value = { above: BigInt(whole + part), below: 10n ** BigInt(part.length) }
  return multiplied(value, raised(ten, exponent))
}

function withoutThousands(written: string, decimalComma: boolean): string {
  const plain = written.replaceAll(/[−–]/g, '-').replaceAll(/[_'’ ]/g, '')
  if (!decimalComma) return plain.replaceAll(',', '')
  const isGrouped = /^[1-9]\d{0,2}(?:\.\d{3})+(?!\d)/.test(plain)
  return (isGrouped ? plain.replaceAll('.', '') : plain).replace(',', '.')
}

function multiplied(
  one: ExactNumber | undefined,
  other: ExactNumber | undefined,
): ExactNumber | undefined {
  return one && other && { above: one.above * other.above, below: one.below * other.below }
}

function inverse(value: ExactNumber | undefined): ExactNumber | undefined {
  if (value === undefined || value.above === 0n) return undefined
  const { above, below } = value
  return above < 0n ? { above: -below, below: -above } : { above: below, below: above }
}

/** A whole number to a power. */
function raised(
  { above, below }: ExactNumber | undefined = { above: 0n, below: 0n },
  power: string,
): ExactNumber | undefined {
  const exponent = Number(power.replaceAll(/[−–]/g, '-').replaceAll(/\s/g, ''))
  if (below !== 1n || above > 1_000_000n || Math.abs(exponent) > mostZeros) return undefined
  const value = { above: above ** BigInt(Math.abs(exponent)), below: 1n }
  return exponent < 0 ? inverse(value) : value
}

/** Small letters of exponents, such as those of km². */
const superscripts = '⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻'
const vulgarFractions = /[\u00BC-\u00BE\u2150-\u215E]/g
/** Groups of LaTeX are short, and a limit keeps the time linear in what a policy wrote. */
const group = String.raw`\{([^{}]{0,200})\}`
const nested = String.raw`\{((?:[^{}]|\{[^{}]{0,50}\}){0,200})\}`
const styled = new RegExp(
  String.raw`\\(?:text|math|mbox|hbox|emph|underline|boldsymbol|bm|num|ang|operatorname)[a-z]*\s*${nested}`,
  'g',
)
const fraction = new RegExp(String.raw`\\[cdt]?frac\s*(?:${group}|(\d))\s*(?:${group}|(\d))`, 'g')
const term = /^\s*[-−–+]?\s*[\d.,_]*\d\s*$/

/** Writes the LaTeX, HTML and Unicode around numbers in one way: `\frac{1}{2}` and ½ become 1/2. */
function plainMath(text: string): string {
  const plain = text
    .normalize('NFC')
    .replaceAll(/&nbsp;|&#160;|&thinsp;/g, ' ')
    .replaceAll(/&minus;|&#8722;|[\u02D7\uFE63\u2796]/g, '\u2212')
    // Digits of full width.
    .replaceAll(/[\uFF01-\uFF5E]+/g, (wide) => wide.normalize('NFKC'))
    .replaceAll(vulgarFractions, (sign) => ` ${sign.normalize('NFKC').replace('\u2044', '/')}`)
    .replaceAll('\u2044', '/')
    .replaceAll(/[\u2010-\u2012]/g, '-')
    .replaceAll(/[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+/g, (signs) => `^{${lowered(signs)}}`)
    .replaceAll(/<sup>\s*([^<>]{1,20}?)\s*<\/sup>/gi, '^{$1}')
    .replaceAll(/\\(?:text|f?box)?color(?:box)?\s*\{[^{}]{0,50}\}/g, ' ')
    .replaceAll(
      /\\(?:left|right|[bB]igg?[lrm]?|displaystyle|q?quad|[lL]arge|huge|bf|rm|it)(?![a-zA-Z])/g,
      ' ',
    )
    .replaceAll(/\\(?:text|math)(?:bf|rm|it|sf)(?=\s?[-−–]?\d)/g, ' ')
    .replaceAll(/\s*\{,\}\s*/g, ',')
    .replaceAll(/\{\s*([-−–])\s*\}/g, '$1')
    // A negative space, which takes back the space around it.
    .replaceAll(/\s*\\(?:!|negthinspace(?![a-zA-Z]))\s*|\$(?=\^)/g, '')
    .replaceAll(/\\[,;: ]|(?<=\w)~(?=\S)|[\u00A0\u2009\u202F]/g, ' ')
    .replaceAll(/\\([%$#&_])/g, '$1')
    .replaceAll(/\\[()[\]]/g, ' ')
    .replaceAll(/\s?(?:\^\s?(?:\{\s*\\circ\s*\}|\\circ(?![a-z]))|\\degree(?![a-z]))/g, '°')
    .replaceAll(/\\(?:times|cdot|ast)(?![a-zA-Z])/g, '×')
    .replaceAll(/\\pm(?![a-zA-Z])/g, '±')
    .replaceAll(/\\approx(?![a-zA-Z])/g, '≈')
    .replaceAll(/\s?\\pi(?![a-zA-Z])/g, 'π')
    .replaceAll(/\s?\\sqrt(?![a-zA-Z])/g, '√')
  return unstyled(plain)
    .replaceAll(fraction, (whole, ...[a, a1, b, b1]: (string | undefined)[]) => {
      const [above = '', below = ''] = [a ?? a1, b ?? b1]
      return term.test(above) && term.test(below) ? ` ${above.trim()}/${below.trim()}` : whole
    })
    .replaceAll(/ {2,}/g, ' ')
}

function lowered(signs: string): string {
  return signs.replaceAll(/./g, (sign) => '0123456789+-'[superscripts.indexOf(sign)] ?? '')
}

/** Styles nest, as in `\mathbf{\text{6}}`. */
function unstyled(text: string): string {
  const inner = text.replaceAll(styled, ' $1 ')
  return inner === text ? text : unstyled(inner)
}
