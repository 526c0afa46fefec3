const superscripts = '⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻'

/** How LaTeX, HTML and Unicode write numbers, and how they are written here, one after the other. */
const writings: readonly (readonly [
  written: RegExp,
  plain: string | ((written: string) => string),
])[] = [
  [/&nbsp;|&#160;|&thinsp;/g, ' '],
  [/&minus;|&#8722;|[\u02D7\uFE63\u2796]/g, '\u2212'],
  // Digits of full width.
  [/[\uFF01-\uFF5E]+/g, (wide) => wide.normalize('NFKC')],
  [/[\u00BC-\u00BE\u2150-\u215E]/g, (share) => ` ${share.normalize('NFKC')}`],
  [/\u2044/g, '/'],
  [/[\u2010-\u2012]/g, '-'],
  [/[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+/g, (small) => `^{${lowered(small)}}`],
  [/<sup>([^<>]{1,20})<\/sup>/gi, (raised) => `^{${raised.slice(5, -6).trim()}}`],
  [/\\(?:text|f?box)?color(?:box)?\s*\{[^{}]{0,50}\}/g, ' '],
  [/\\(?:left|right|[bB]igg?[lrm]?)(?![a-zA-Z])/g, ' '],
  [/\\(?:displaystyle|q?quad|[lL]arge|huge|bf|rm|it)(?![a-zA-Z])/g, ' '],
  [/\\(?:text|math)(?:bf|rm|it|sf)(?=\s?[-−–]?\d)/g, ' '],
  [/\s{0,3}\{,\}\s*/g, ','],
  [/\{\s*([-−–])\s*\}/g, '$1'],
  // A negative space, which takes back the space around it.
  [/\s{0,3}\\(?:!|negthinspace(?![a-zA-Z]))\s*|\$(?=\^)/g, ''],
  [/(\w)~(?=\S)/g, '$1 '],
  [/\\[,;: ]|[\u00A0\u2009\u202F]/g, ' '],
  [/\\([%$#&_])/g, '$1'],
  [/\\[()[\]]/g, ' '],
  [/\s?(?:\^\s?(?:\{\s*\\circ\s*\}|\\circ(?![a-z]))|\\degree(?![a-z]))/g, '°'],
  [/\\(?:times|cdot|ast)(?![a-zA-Z])/g, '×'],
  [/\\pm(?![a-zA-Z])/g, '±'],
  [/\\approx(?![a-zA-Z])/g, '≈'],
  [/\s?\\pi(?![a-zA-Z])/g, 'π'],
  [/\s?\\sqrt(?![a-zA-Z])/g, '√'],
]

function lowered(small: string): string {
  return small.replaceAll(/./g, (sign) => '0123456789+-'[superscripts.indexOf(sign)] ?? '')
}

const styles = 'text|math|mbox|hbox|emph|underline|boldsymbol|bm|num|ang|operatorname'
/** Groups of LaTeX are short, and a limit keeps the time linear in what a policy wrote. */
const nested = String.raw`\{((?:[^{}]|\{[^{}]{0,50}\}){0,200})\}`
const styled = new RegExp(String.raw`\\(?:${styles})[a-z]*\s*${nested}`, 'g')
const group = String.raw`\{([^{}]{0,200})\}`
const fraction = new RegExp(String.raw`\\[cdt]?frac\s*(?:${group}|(\d))\s*(?:${group}|(\d))`, 'g')
const term = /^\s*[-−–+]?\s*[\d.,_]*\d\s*$/

/** Writes the LaTeX, HTML and Unicode around numbers in one way: `\frac{1}{2}` and ½ become 1/2. */
export function plainMath(text: string): string {
  let plain = text.normalize('NFC')
  for (const [written, instead] of writings) plain = plain.replaceAll(written, instead as string)
  return unstyled(plain)
    .replaceAll(fraction, (whole, ...[a, a1, b, b1]: (string | undefined)[]) => {
      const [above = '', below = ''] = [a ?? a1, b ?? b1]
      return term.test(above) && term.test(below) ? ` ${above.trim()}/${below.trim()}` : whole
    })
    .replaceAll(/ {2,}/g, ' ')
}

/** Styles nest, as in `\mathbf{\text{6}}`. */
function unstyled(text: string): string {
  const inner = text.replaceAll(styled, ' $1 ')
  return inner === text ? text : unstyled(inner)
}
