/** Idioms that slow readers down, below what to write instead. Spaces stand for any white space. */
const idioms: Readonly<Record<string, readonly string[]>> = {
  'report, deliver or notify; for "untold": pending': [
    '(un)?told',
    'tells?(?! (an?|the|whether|you))',
    '[Tt]elling',
    'teller',
  ],
  'store, retain or preserve': ['kept'],
  'name who acts: a caller, a client, any server': ['[Ww]hoever', 'whomever', '[Nn]obody'],
  'continue or resume': ['(go|goes|going|went) on'],
  'again, from the start, or new': ['anew'],
  'is not a …': [
    '(is|are|was) no (?!longer|more|one|such|need|way|limit|reason|doubt|differen|other)\\w+',
  ],
  'this many, or up to a number': ['so many'],
  'requested, or called': ['(is|was) asked', 'asked for', '[Aa]sked(?=[A-Z])\\w*'],
  'assign or dispatch': ['hand(s|ed)? out'],
  'is in, replaces or represents': ['stands? (in|for|there|where|behind)'],
  fix: ['mend(s|ed|ing)?'],
  'difference or divergence': ['[Pp]arting'],
  'give a training signal': ['teach(es)?'],
  'happen to, or result of': ['(becomes?|comes?|came) of'],
  'on its own, or automatically': ['of (it|them)sel(f|ves)'],
  'at once, or concurrently': ['at the same time', 'most \\w+ at (once|a time)'],
  'invented or synthesised': ['made up'],
  'unreachable, closed, or has exited': ['(is|was|were) (away|gone)'],
  manage: ['look(s|ed)? after'],
  'exit report': ['[Ll]ast ?[Ww]ords'],
  'arguments, text or label': ['[a-z]\\w*Words'],
  'readable by humans, or by machines': ['for (people|programs)'],
  'instead of, or replaces': ['in place of'],
  'running, or in progress': ['[Uu]nder ?way'],
  unusual: ['conspicuous'],
  started: ['begun'],
  'does not know, or is independent of': ['knows? (nothing|no)'],
  'pending or undelivered': ['owe[sd]?'],
  'fail, or problem': ['stumbles?'],
  '<fraction>': ['<share>'],
}

const patterns = Object.entries(idioms).map(([instead, phrases]) => {
  const alternatives = phrases
    .join('|')
    .replaceAll(' (?!', '\\s+(?!')
    .replaceAll(/ (?!\?)/g, '\\s+')
  return { instead, pattern: new RegExp(`(?<![\\w])(?:${alternatives})(?![\\w])`, 'g') }
})

/** An idiom in a file. */
export interface Idiom {
  readonly file: string
  readonly line: number
  readonly found: string
  readonly instead: string
}

/** The idioms of some texts, and how frequent they are. */
export function findIdioms(texts: readonly { readonly file: string; readonly text: string }[]): {
  readonly found: readonly Idiom[]
  readonly perThousandLines: number
} {
  let lines = 0
  const found: Idiom[] = []
  for (const { file, text } of texts) {
    lines += text.split('\n').length
    if (file === 'scripts/idioms.ts') continue
    for (const { instead, pattern } of patterns) {
      for (const match of text.matchAll(pattern)) {
        const line = text.slice(0, match.index).split('\n').length
        found.push({ file, line, found: match[0], instead })
      }
    }
  }
  return { found, perThousandLines: (1000 * found.length) / lines }
}
