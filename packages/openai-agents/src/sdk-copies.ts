import { createRequire } from 'node:module'

/** What the CommonJS form of the SDK exports, in any of its versions. */
export type CommonJsTwin = Readonly<Record<string, unknown>>

/**
 * The SDK as `require()` gives it: a second set of classes next to the imported one, present when
 * some CommonJS code of the program uses the SDK as well.
 */
export function commonJsTwin(): CommonJsTwin | undefined {
  const require = createRequire(import.meta.url)
  try {
    return require.cache[require.resolve('@openai/agents')]?.exports as CommonJsTwin | undefined
  } catch {
    // Not resolvable from here: then this package's own import went another way, and so did theirs.
    return undefined
  }
}
