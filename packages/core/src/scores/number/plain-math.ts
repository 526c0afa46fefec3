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
export function plainMath(text: string): string {
  const plain = text
    // Digits of full width.
    .replaceAll(/[\uFF01-\uFF5E]+/g, (wide) => wide.normalize('NFKC'))
    .replaceAll(vulgarFractions, (sign) => ` ${sign.normalize('NFKC').replace('\u2044', '/')}`)
    .replaceAll('\u2044', '/')
    .replaceAll(/[\u2010-\u2012]/g, '-')
    .replaceAll(/[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+/g, (raised) => `^{${lowered(raised)}}`)
    .replaceAll(/<sup>\s*([^<>]{1,20}?)\s*<\/sup>/gi, '^{$1}')
    .replaceAll(/\\(?:text|f?box)?color(?:box)?\s*\{[^{}]{0,50}\}/g, ' ')
    .replaceAll(
      /\\(?:left|right|[bB]igg?[lrm]?|displaystyle|q?quad|[lL]arge|huge|bf|rm|it)(?![a-zA-Z])/g,
      ' ',
    )
    .replaceAll(/\\(?:text|math)(?:bf|rm|it|sf)(?=\s?[-−–]?\d)/g, ' ')
    .replaceAll('{,}', ',')
    .replaceAll(/\\!|\$(?=\^)/g, '')
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

function lowered(raised: string): string {
  return raised.replaceAll(/./g, (sign) => '0123456789+-'[superscripts.indexOf(sign)] ?? '')
}

/** Styles nest, as in `\mathbf{\text{6}}`. */
function unstyled(text: string): string {
  const inner = text.replaceAll(styled, ' $1 ')
  return inner === text ? text : unstyled(inner)
}
