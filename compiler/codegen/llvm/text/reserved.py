"""Names that C, C++ and their libraries keep for themselves."""

import re


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The keywords of C23 and of C++20, which reads headers too, and what compilers define without being asked.
_WORDS = _names("""
    auto break case char const continue default do double else enum extern float for goto if inline int long register restrict
    return short signed sizeof static struct switch typedef typeof typeof_unqual union unsigned void volatile while alignas
    alignof and and_eq asm bitand bitor bool catch char16_t char32_t char8_t class co_await co_return co_yield compl concept
    const_cast consteval constexpr constinit decltype delete dynamic_cast explicit export false friend mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast requires static_assert static_cast
    template this thread_local throw true try typeid typename using virtual wchar_t xor xor_eq linux unix i386 NULL
""")
_INTEGERS = re.compile(r"u?int\w*_t|U?INT\w*_(?:MIN|MAX|C|WIDTH)")  # of <stdint.h>
# Of <math.h>, each also with the suffixes f and l.
_FLOATING = _names("""
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 expm1 fabs fdim floor fma
    fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf
    nan nearbyint nextafter nexttoward pow pow10 remainder remquo rint round scalb scalbln scalbn significand sin sincos sinh
    sqrt tan tanh tgamma trunc y0 y1 yn
""")
# Of the other headers of C, and those of POSIX whose names are words.
_OTHER = _names("""
    abort abs aligned_alloc asctime assert at_quick_exit atexit atof atoi atol atoll bsearch calloc clearerr clock ctime
    difftime div errno exit fclose feof ferror fflush fgetc fgetpos fgets fopen fprintf fputc fputs fread free freopen fscanf
    fseek fsetpos ftell fwrite getc getchar getenv gets gmtime isalnum isalpha isblank iscntrl isdigit isgraph islower isprint
    ispunct isspace isupper isxdigit labs ldiv llabs lldiv localeconv localtime longjmp malloc mblen mbstowcs mbtowc memchr
    memcmp memcpy memmove memset mktime perror printf putc putchar puts qsort quick_exit raise rand realloc remove rename
    rewind scanf setbuf setjmp setlocale setvbuf signal snprintf sprintf srand sscanf stderr stdin stdout strcat strchr strcmp
    strcoll strcpy strcspn strerror strftime strlen strncat strncmp strncpy strpbrk strrchr strspn strstr strtod strtof strtok
    strtol strtold strtoll strtoul strtoull strxfrm system time tmpfile tmpnam tolower toupper ungetc vfprintf vprintf
    vsnprintf vsprintf wcstombs wctomb accept access alarm bcmp bcopy bind brk bzero chdir close connect dup exec ffs fork
    index kill link listen mmap munmap nice open pause pipe poll read recv rindex select send shutdown sleep socket stat
    stpcpy strdup strndup sync syscall truncate unlink wait write
""")
# Headers of C and POSIX: a header of that name in a program's include folder would stand in their place.
_HEADERS = _names("""
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool
    stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype aio cpio dirent dlfcn fcntl
    fmtmsg fnmatch ftw glob grp iconv langinfo libgen monetary mqueue ndbm netdb nl_types poll pthread pwd regex sched search
    semaphore spawn strings stropts syslog tar termios trace ulimit unistd utime utmpx wordexp
""")
_LIBRARY = _OTHER | {name + suffix for name in _FLOATING for suffix in ("", "f", "l")}


def is_word(name: str) -> bool:
    """Return whether a name is reserved in C or C++: a keyword, a type or macro of <stdint.h>, or any name that begins with _."""
    return name in _WORDS or name[:1] == "_" or bool(_INTEGERS.fullmatch(name))


def is_taken(name: str) -> bool:
    """Return whether a name is of something else already: main, a function of the C library or the OpenMP runtime, a header.

    Compiled code calls some of them itself; LLVM keeps what begins with its own name and a dot.
    """
    return name in _LIBRARY | _HEADERS or name in ("main", "vtakit_packed", "llvm") or name.startswith(("GOMP_", "omp_"))
