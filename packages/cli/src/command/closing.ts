/**
 * Gives `resource` to `use` and closes it afterwards, whatever comes of it: `await using` for
 * Node.js 22, which has no such syntax and runs these sources as they are.
 */
export async function closing<R extends AsyncDisposable | undefined, T>(
  resource: R,
  use: (resource: R) => Promise<T>,
): Promise<T> {
  try {
    return await use(resource)
  } finally {
    await resource?.[Symbol.asyncDispose]()
  }
}
