import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** How many of these objects are still alive when all garbage was collected. For `expect.poll`. */
export function countAlive(objects: readonly WeakRef<object>[]): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  return objects.filter((object) => object.deref() !== undefined).length
}
