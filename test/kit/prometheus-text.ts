/** Figures by their name with labels, as they are written: `name{label="value"}`. */
export type Metrics = ReadonlyMap<string, number>

const name = '[a-zA-Z_:][a-zA-Z0-9_:]*'
const label = String.raw`[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"`
const sampleLine = new RegExp(`^(${name})(?:\\{(${label}(?:,${label})*)\\})? (\\S+)$`)
const helpLine = new RegExp(`^# HELP (${name}) .+$`)
const typeLine = new RegExp(`^# TYPE (${name}) (counter|gauge|histogram)$`)
const numberForm = /^(?:[-+]?(?:\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|Inf)|NaN|Nan)$/

/**
 * Reads Prometheus text strictly: each family in one piece with one HELP and one TYPE in front, no
 * figure twice, counters named and never negative, buckets that add up.
 */
export function metricsIn(text: string): Metrics {
  if (!text.endsWith('\n')) throw new Error('the last line has no end')
  const figures = new Map<string, number>()
  const families = new Set<string>()
  let family = ''
  let type = ''
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const [, helped] = helpLine.exec(line) ?? []
    const [, typed, kind = ''] = typeLine.exec(line) ?? []
    if (helped !== undefined) {
      if (families.has(helped)) throw new Error(`${helped} comes twice`)
      families.add(helped)
      family = helped
      type = ''
    } else if (typed !== undefined) {
      if (typed !== family || type !== '') throw new Error(`TYPE at the wrong place: ${line}`)
      type = kind
    } else {
      const [, sample = '', labels = '', value = ''] = sampleLine.exec(line) ?? []
      if (type === '' || !belongs(sample, family, type)) throw new Error(`no such line: ${line}`)
      if (!numberForm.test(value)) throw new Error(`no number: ${line}`)
      const key = labels === '' ? sample : `${sample}{${labels}}`
      if (figures.has(key)) throw new Error(`${key} comes twice`)
      figures.set(key, Number(value.replace(/Inf$/, 'Infinity')))
      if (type === 'counter' && !(Number(value) >= 0)) throw new Error(`no counter: ${line}`)
    }
  }
  checkBuckets(figures)
  return figures
}

function belongs(sample: string, family: string, type: string): boolean {
  if (type === 'counter') return sample === family && family.endsWith('_total')
  if (type === 'gauge') return sample === family
  return [`${family}_bucket`, `${family}_sum`, `${family}_count`].includes(sample)
}

function checkBuckets(figures: Metrics): void {
  const last = new Map<string, number>()
  for (const [key, figure] of figures) {
    const [, family, bound, rest = ''] = /^(.*)_bucket\{le="([^"]+)",?(.*)\}$/.exec(key) ?? []
    if (family === undefined) continue
    const count = `${family}_count${rest === '' ? '' : `{${rest}}`}`
    if (figure < (last.get(count) ?? 0)) throw new Error(`buckets shrink: ${key}`)
    last.set(count, figure)
    if (bound === '+Inf' && figures.get(count) !== figure) {
      throw new Error(`the last bucket is not the count: ${key}`)
    }
  }
}
