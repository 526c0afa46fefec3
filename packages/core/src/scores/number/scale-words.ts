/** Words that multiply the number before them, each with one meaning in all languages that have it. */
const factors: readonly (readonly [factor: bigint, words: string])[] = [
  [10n, 'ten tens 十'],
  [
    12n,
    'dozen dozens doz dz dutzend douzaine douzaines docena docenas dussin tuzin дюжина дюжины дюжин',
  ],
  [100n, 'hundred hundreds hundert honderd сотня сотни сотен 百 佰 ร้อย 백'],
  [
    1000n,
    'k thousand thousands thou thsd tsd tausend mila milliers duizend tusen tusind tys tis тыс тысяча тысячи тысяч ribu nghìn ngàn हजार ألف آلاف هزار 千 仟 พัน 천',
  ],
  [10_000n, '万 萬 หมื่น 만'],
  [100_000n, 'lakh lakhs lac lacs लाख แสน'],
  [
    10n ** 6n,
    'million millions mn mln mio millionen miljoen miljoner milione milioni millón millones milhão milhões milyon млн миллион миллиона миллионов triệu juta מיליון مليون ล้าน',
  ],
  [10n ** 7n, 'crore crores करोड़'],
  [10n ** 8n, '亿 億 억'],
  [
    10n ** 9n,
    'billion billions bn mrd mlrd mld milliard milliards milliarde milliarden miliardo miliardi miljard miljarder milyar млрд миллиард миллиарда миллиардов tỷ מיליארד مليار',
  ],
  [10n ** 12n, 'trillion trillions tn trn трлн триллион триллиона триллионов'],
  [10n ** 15n, 'quadrillion quadrillions'],
  [10n ** 18n, 'quintillion quintillions'],
]

/**
 * Expressions for words that multiply by something that the word alone does not tell: `mil` is a thousand, a million or a
 * thousandth of an inch, `billón` is not a billion, and M may be molar. Beginnings stand for the inflections of languages.
 */
const unclear = [
  'mils?|mill|mille|bi[lo]|bln|bi|md|mds|mia|cr|bin|mii|rb|jt|gross|score|googol|myriads?|grands|grand(?!\\s?\\p{L})',
  '(?:hunder|tausen|centen|cient|centin|tis[íi]c)\\p{L}*',
  '(?:ten|hundred|thousand|\\p{L}{0,9}illion)ths?|halves|thirds|fourths|(?:fif|six|seven|eigh|nin)ths',
  'p(?:er|ro|or|our)\\s?(?:mille?|mil|thousand)',
  '(?:half|third|quarter|(?:four|fif|six|seven|eigh|nin)th)s? of',
  '\\p{L}{0,9}illions?',
  '(?!\\p{L}*(?:air|är|aer|aris|arder))m[iy]l+[ijy]?(?:[oóõ]{1,2}a?[ne]|[oó](?!\\p{L})|ão|hõ|[aáā]r(?!c))\\p{L}*',
  '(?!\\p{L}*(?:air|är|aer|aris))(?:b|tr|kvadr|kwadr|quadr)[iy]l+[ijyh]?(?:[oóu]n|oen|õe|ão|iã|iõ)\\p{L}*',
  '(?:мил+и|мільй|мільяр|бил+ио|трил+и|трильй|тысяч|тисяч|εκατ|δισ|χιλ)\\p{L}*',
]

const currency = String.raw`(?:\p{Sc}|(?:USD|EUR|GBP|JPY|CNY|INR|CHF|Rs\.?))`
/** Near a currency M is not molar, m no metre, K no kelvin and T no tesla. Elsewhere K stands behind a space. */
const unclearLetters = String.raw`M{1,2}|kk|[Bb]|(?<!\s)[KG]`
const unclearMoney = String.raw`[kKmMbBtTG](?=\s?(?!\$)${currency})`
/** Behind a currency the letters are clear, but not as a part of a unit (m/s). Between two dollar signs stands a formula, and no amount. */
const moneyLetters = String.raw`(?<=${currency}\s?\d[\d.,]{0,30}\s?)(?:[kKmMbBtT])(?!\s?[\/^·⋅×²³]|[^$\n]{0,80}\$)`
const moneyZeros: Readonly<Record<string, bigint>> = { k: 3n, m: 6n, b: 9n, t: 12n }

/** Scripts that write words without spaces between them. */
const isJoined = /^[\p{sc=Han}\p{sc=Thai}\p{sc=Hangul}]+$/u
/** What follows one of them changes it: 3千米 is 3 km, 3兆赫 is 3 MHz, and 3조각 are three pieces. */
const joinedEnds: Readonly<Record<string, string>> = {
  千: '(?![米克瓦卡赫帕焦伏字升])',
  百: '(?!帕)',
}
const unclearJoined = '兆(?![赫字瓦])|조(?!각|개)|[‰‱]'

const factorOf = new Map(
  factors.flatMap(([factor, words]) =>
    words
      .normalize('NFC')
      .split(' ')
      .map((word) => [word, factor] as const),
  ),
)
const joined = [...factorOf.keys()].filter((word) => isJoined.test(word))
const spaced = [...factorOf.keys()].filter((word) => !isJoined.test(word) && word !== 'k')

/** The letters of an expression in any case, because a flag would hold for the whole expression. */
function inAnyCase(expression: string): string {
  return expression.replaceAll(/\\p\{L\}|\\s|\[\p{L}+\]|\p{L}/gu, (part) => {
    if (part.startsWith('\\')) return part
    const small = part.replaceAll(/[[\]]/g, '').toLowerCase()
    return `[${[...new Set(small + small.toUpperCase())].join('')}]`
  })
}

/** What may stand between a number and its word, or between two words: a space, a dash, emphasis, a currency. */
const gap = String.raw`(?:[*_$\x60~]{0,3}[\s\-]?(?:${currency}\s?)?[*_$\x60~]{0,3})`

/** The expression of what scales a number, behind the number. `notInWord` ends a word. */
export function scaleEnd(notInWord: string): {
  /** With the groups `scale` and `money`. */
  readonly named: string
  readonly unnamed: string
} {
  const words = inAnyCase([...spaced, ...unclear].join('|'))
  const ends = joined.map((word) => word + (joinedEnds[word] ?? ''))
  const word = `(?:(?:${words}|k|${unclearLetters})${notInWord}|${unclearMoney}|${ends.join('|')}|${unclearJoined})`
  const money = `${moneyLetters}${notInWord}`
  return {
    named: String.raw`(?:\s?(?<money>${money})|${gap}(?<scale>${word}(?:${gap}${word}){0,3}))`,
    unnamed: String.raw`(?:\s?${money}|${gap}${word})`,
  }
}

/** By how much words such as `hundred thousand` multiply; undefined when that is not clear. */
export function scaleFactor(text: string): bigint | undefined {
  let product = 1n
  for (const [word] of text
    .toLowerCase()
    .matchAll(new RegExp(`${joined.join('|')}|[^\\s\\-*_$\`~]+`, 'gu'))) {
    const factor = factorOf.get(word)
    if (factor === undefined) return undefined
    product *= factor
  }
  return product
}

/** The same of a letter behind an amount of money. */
export function moneyFactor(letter: string): bigint {
  return 10n ** (moneyZeros[letter.toLowerCase()] ?? 0n)
}
