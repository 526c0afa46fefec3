import { useEffect, useRef, useState } from 'preact/hooks'

import { arriveInView, currentVisit, leaveView } from './focus-return.ts'

/** The state of the page that is in its address, so that it can be shared. */
export interface Route {
  readonly page: 'runs' | 'run' | 'compare' | 'training'
  /** Of a training: `<training>/<run>`. */
  readonly run: string
  /** The training of the page, or of the run; empty for none. */
  readonly training: string
  /** The run that it is compared with. */
  readonly other: string
  readonly query: string
  /** `row.attempt`, the attempt from 1; empty for none. */
  readonly selected: string
  /** The sample of the rollout; empty for the first. */
  readonly sample: string
  /** Whether two attempts are shown side by side. */
  readonly divergence: boolean
}

/** @param only - the only run, which replaces the list */
function readRoute(hash: string, only: string | undefined): Route {
  const [path = '', search = ''] = hash.slice(1).split('?')
  const [, page = '', run = '', other = ''] = path.split('/').map(decoded)
  const parameters = new URLSearchParams(search)
  const isTraining = page === 'training'
  const isList = page !== 'run' && page !== 'compare' && !isTraining
  return {
    page: !isList ? page : only === undefined ? 'runs' : 'run',
    run: isList ? (only ?? '') : isTraining ? '' : run,
    training: isTraining ? run : run.includes('/') ? (run.split('/')[0] ?? '') : '',
    other,
    query: parameters.get('q') ?? '',
    selected: parameters.get('sel') ?? '',
    sample: parameters.get('sample') ?? '',
    divergence: parameters.has('diff'),
  }
}

/** The address of a route; omitted fields are empty. */
export function hrefOf(route: Partial<Route>): string {
  const { page = 'runs', run = '', training = '', other = '' } = route
  const { query, selected, sample, divergence } = route
  const parameters = new URLSearchParams()
  if (query) parameters.set('q', query)
  if (selected) parameters.set('sel', selected)
  if (selected && sample) parameters.set('sample', sample)
  if (selected && divergence) parameters.set('diff', '')
  const names = { runs: [], run: [run], compare: [run, other], training: [training] }[page]
  const path = page === 'runs' ? '' : [page, ...names.map(encodeURIComponent)].join('/')
  const search = parameters.toString().replace(/=(?=&|$)/g, '')
  return `#/${path}${search === '' ? '' : `?${search}`}`
}

/** The address of the comparison of a run with a re-grading of it. */
export function comparisonHref(name: string, variant: string): string {
  const [run, other] = variant.includes('@') ? [name, variant] : [variant, name]
  return hrefOf({ page: 'compare', run, other })
}

/** Changes the route; omitted fields stay. */
export type Go = (change: Partial<Route>, how?: 'push' | 'replace') => void

export function useRoute(only: string | undefined): readonly [Route, Go] {
  const [route, setRoute] = useState(() => readRoute(location.hash, only))
  const visit = useRef(currentVisit())
  const show = (next: Route): void => {
    const from = visit.current
    visit.current = currentVisit()
    leaveView(from, visit.current)
    setRoute(next)
    arriveInView(from, visit.current)
  }
  useEffect(() => {
    const read = (): void => show(readRoute(location.hash, only))
    addEventListener('hashchange', read)
    addEventListener('popstate', read)
    return () => {
      removeEventListener('hashchange', read)
      removeEventListener('popstate', read)
    }
  }, [only])
  const go: Go = (change, how = 'replace') => {
    const next = { ...readRoute(location.hash, only), ...change }
    if (how === 'push') history.pushState(null, '', hrefOf(next))
    else history.replaceState(history.state, '', hrefOf(next))
    show(next)
  }
  return [route, go]
}

/** A shared address may be truncated. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
